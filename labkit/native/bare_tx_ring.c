/* The bare loop that the tx_ring engine is measured against: the same ring, every slot written once, no look
 * at refusals. Arguments as in bare.h; prints nanoseconds per packet. */
#include "bare.h"

enum { SLOTS = 4096, SLOT_BYTES = 128, BLOCK_BYTES = 4096, DATA_OFFSET = 32 };

int main(int argc, char** argv) {
    const struct asked asked = read_arguments(argc, argv);
    if (asked.frame_bytes + DATA_OFFSET > SLOT_BYTES) refuse("frame: at most 96 bytes");
    const int fd = open_socket(asked.ifindex);
    const int version = TPACKET_V2;
    const struct tpacket_req request = {BLOCK_BYTES, SLOTS * SLOT_BYTES / BLOCK_BYTES, SLOT_BYTES, SLOTS};
    if (setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version) != 0 ||
        setsockopt(fd, SOL_PACKET, PACKET_TX_RING, &request, sizeof request) != 0) {
        fail("ring");
    }
    unsigned char* ring = mmap(NULL, SLOTS * SLOT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (ring == MAP_FAILED) fail("mmap");
    for (int i = 0; i < SLOTS; ++i) {
        write_frame(ring + i * SLOT_BYTES + DATA_OFFSET, asked.frame_bytes);
        ((struct tpacket2_hdr*)(ring + i * SLOT_BYTES))->tp_len = (unsigned)asked.frame_bytes;
    }
    const int64_t start = now_ns();
    int64_t sent = 0, end = start;
    for (int at = 0; end < start + asked.duration_ns;) {
        for (int i = 0; i < asked.batch; ++i) {
            struct tpacket2_hdr* slot = (struct tpacket2_hdr*)(ring + (at + i) % SLOTS * SLOT_BYTES);
            while (__atomic_load_n(&slot->tp_status, __ATOMIC_ACQUIRE) != TP_STATUS_AVAILABLE);
            __atomic_store_n(&slot->tp_status, TP_STATUS_SEND_REQUEST, __ATOMIC_RELEASE);
        }
        if (send(fd, NULL, 0, MSG_DONTWAIT) < 0) fail("kick");
        at = (at + asked.batch) % SLOTS;
        sent += asked.batch;
        end = now_ns();
    }
    print_ns_per_packet(start, end, sent);
    return 0;
}
