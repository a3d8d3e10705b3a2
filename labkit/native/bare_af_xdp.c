/* The bare loop that the af_xdp engine is measured against: the same socket, every frame written once, no
 * look at what was refused. Arguments as in bare.h; prints nanoseconds per packet. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/if_xdp.h>
#include <unistd.h>

#include "bare.h"

enum { RING_FRAMES = 2048, SLOT_BYTES = 64, CHUNK_BYTES = 2048, BUDGET_OPTION = 9, OPEN_TRIES = 250 };

struct rings {
    uint32_t *tx_producer, *tx_consumer, *tx_flags, *done_producer, *done_consumer;
    struct xdp_desc* tx;
    unsigned char *tx_memory, *done_memory;
    size_t tx_bytes, done_bytes;
};

static unsigned char* map(int fd, size_t bytes, off_t offset) {
    void* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, offset);
    if (memory == MAP_FAILED) fail("mmap");
    return memory;
}

static struct rings map_rings(int fd) {
    struct xdp_mmap_offsets offsets;
    socklen_t bytes = sizeof offsets;
    if (getsockopt(fd, SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &bytes) != 0) fail("offsets");
    struct rings rings = {.tx_bytes = offsets.tx.desc + RING_FRAMES * sizeof(struct xdp_desc),
                          .done_bytes = offsets.cr.desc + RING_FRAMES * sizeof(uint64_t)};
    unsigned char* tx = rings.tx_memory = map(fd, rings.tx_bytes, XDP_PGOFF_TX_RING);
    unsigned char* done = rings.done_memory = map(fd, rings.done_bytes, XDP_UMEM_PGOFF_COMPLETION_RING);
    rings.tx = (struct xdp_desc*)(tx + offsets.tx.desc);
    rings.tx_producer = (uint32_t*)(tx + offsets.tx.producer);
    rings.tx_consumer = (uint32_t*)(tx + offsets.tx.consumer);
    rings.tx_flags = (uint32_t*)(tx + offsets.tx.flags);
    rings.done_producer = (uint32_t*)(done + offsets.cr.producer);
    rings.done_consumer = (uint32_t*)(done + offsets.cr.consumer);
    return rings;
}

/* A queue comes free some 50 ms after the socket that held it was closed. */
static int open_xsk(int ifindex, unsigned char* memory, size_t bytes, struct rings* rings) {
    const struct xdp_umem_reg umem = {
        .addr = (uint64_t)(uintptr_t)memory, .len = bytes, .chunk_size = CHUNK_BYTES};
    const int frames = RING_FRAMES, fill = 1;
    const struct sockaddr_xdp address = {
        .sxdp_family = AF_XDP, .sxdp_flags = XDP_USE_NEED_WAKEUP, .sxdp_ifindex = (uint32_t)ifindex};
    for (int tries = 0; tries < OPEN_TRIES; ++tries, usleep(2000)) {
        const int fd = socket(AF_XDP, SOCK_RAW, 0);
        if (fd < 0) fail("AF_XDP socket");
        if (setsockopt(fd, SOL_XDP, XDP_UMEM_REG, &umem, sizeof umem) != 0 ||
            setsockopt(fd, SOL_XDP, XDP_UMEM_FILL_RING, &fill, sizeof fill) != 0 ||
            setsockopt(fd, SOL_XDP, XDP_UMEM_COMPLETION_RING, &frames, sizeof frames) != 0 ||
            setsockopt(fd, SOL_XDP, XDP_TX_RING, &frames, sizeof frames) != 0) {
            fail("AF_XDP memory");
        }
        setsockopt(fd, SOL_XDP, BUDGET_OPTION, &frames, sizeof frames);
        *rings = map_rings(fd);
        if (bind(fd, (const struct sockaddr*)&address, sizeof address) == 0) return fd;
        if (errno != EBUSY) break;
        munmap(rings->tx_memory, rings->tx_bytes);
        munmap(rings->done_memory, rings->done_bytes);
        close(fd);
    }
    fail("bind");
    return -1;
}

int main(int argc, char** argv) {
    const struct asked asked = read_arguments(argc, argv);
    if (asked.frame_bytes > SLOT_BYTES) return 2;
    static unsigned char memory[MAX_BATCH * SLOT_BYTES] __attribute__((aligned(4096)));
    for (int i = 0; i < asked.batch; ++i) write_frame(memory + i * SLOT_BYTES, asked.frame_bytes);
    struct rings rings;
    const int fd = open_xsk(asked.ifindex, memory, sizeof memory, &rings);
    const int64_t start = now_ns();
    int64_t sent = 0, end = start;
    for (uint32_t at = 0; end < start + asked.duration_ns;) {
        for (int i = 0; i < asked.batch; ++i) {
            rings.tx[(at + (uint32_t)i) % RING_FRAMES] =
                (struct xdp_desc){(uint64_t)(i * SLOT_BYTES), (uint32_t)asked.frame_bytes, 0};
        }
        at += (uint32_t)asked.batch;
        __atomic_store_n(rings.tx_producer, at, __ATOMIC_RELEASE);
        while (__atomic_load_n(rings.tx_consumer, __ATOMIC_ACQUIRE) != at) {
            if ((__atomic_load_n(rings.tx_flags, __ATOMIC_RELAXED) & XDP_RING_NEED_WAKEUP) == 0) continue;
            if (sendto(fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 && errno != EAGAIN) fail("wake-up");
        }
        __atomic_store_n(rings.done_consumer, __atomic_load_n(rings.done_producer, __ATOMIC_ACQUIRE),
                         __ATOMIC_RELEASE);
        sent += asked.batch;
        end = now_ns();
    }
    print_ns_per_packet(start, end, sent);
    return 0;
}
