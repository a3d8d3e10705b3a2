/* The bare loop that the gso engine is measured against: one prepared super-packet over and over. Arguments
 * as in bare.h, BATCH being its segments; prints nanoseconds per segment. */
#include "bare.h"

enum { HEADERS = 42, OFFLOAD_BYTES = 10, NEEDS_CSUM = 1, GSO_UDP_L4 = 5, MAX_IP_BYTES = 65535 };

struct offload {
    uint8_t flags, gso_type;
    uint16_t header_bytes, segment_bytes, checksum_from, checksum_at;
};

static void set_word(unsigned char* at, size_t value) {
    at[0] = (unsigned char)(value >> 8);
    at[1] = (unsigned char)value;
}

int main(int argc, char** argv) {
    const struct asked asked = read_arguments(argc, argv);
    const size_t payload = asked.frame_bytes - HEADERS, all = payload * (size_t)asked.batch;
    if (28 + all > MAX_IP_BYTES) refuse("segments: more than an IP packet holds");
    static unsigned char packet[OFFLOAD_BYTES + MAX_FRAME_BYTES + MAX_IP_BYTES];
    unsigned char* frame = packet + OFFLOAD_BYTES;
    write_frame(frame, asked.frame_bytes);
    set_word(frame + 16, 28 + all);
    set_word(frame + 38, 8 + all);
    /* the pseudo header's sum: addresses, protocol, length */
    size_t sum = 17 + 8 + all;
    for (int at = 26; at < 34; at += 2) sum += (size_t)(frame[at] << 8 | frame[at + 1]);
    sum = (sum & 0xffff) + (sum >> 16);
    set_word(frame + 40, (sum & 0xffff) + (sum >> 16));
    const struct offload offload = {NEEDS_CSUM, GSO_UDP_L4, HEADERS, (uint16_t)payload, 34, 6};
    memcpy(packet, &offload, OFFLOAD_BYTES);

    const int fd = open_socket(asked.ifindex), on = 1;
    if (setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) != 0) fail("PACKET_VNET_HDR");
    const int64_t start = now_ns();
    int64_t sent = 0, end = start;
    while (end < start + asked.duration_ns) {
        const int taken = send(fd, packet, OFFLOAD_BYTES + HEADERS + all, 0) >= 0;
        if (!taken && !was_full()) fail("send");
        sent += taken ? asked.batch : 0;
        end = now_ns();
    }
    print_ns_per_packet(start, end, sent);
    return 0;
}
