/* The bare loop that the sendmmsg engine is measured against: same socket options, nothing counted but
 * packets. bare_sendmmsg IFINDEX CPU BATCH DURATION_MS FRAME_BYTES; prints nanoseconds per packet. */
#define _GNU_SOURCE
#include <linux/if_packet.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

enum { MAX_BATCH = 1024, MAX_FRAME_BYTES = 9216 };

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int open_socket(int ifindex) {
    const int fd = socket(AF_PACKET, SOCK_RAW, 0);
    const struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_ifindex = ifindex};
    if (fd < 0 || bind(fd, (const struct sockaddr*)&address, sizeof address) != 0) {
        perror("packet socket");
        exit(1);
    }
    const int bytes = 4 << 20;
    const struct timeval timeout = {0, 4000};
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) != 0) {
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    }
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    return fd;
}

int main(int argc, char** argv) {
    if (argc != 6) return 2;
    const int cpu = atoi(argv[2]), batch = atoi(argv[3]);
    const size_t frame_bytes = (size_t)atoi(argv[5]);
    if (batch < 1 || batch > MAX_BATCH || frame_bytes < 14 || frame_bytes > MAX_FRAME_BYTES) return 2;

    static struct mmsghdr messages[MAX_BATCH];
    static struct iovec vectors[MAX_BATCH];
    unsigned char* block = calloc((size_t)batch, frame_bytes);
    for (int i = 0; i < batch; ++i) {
        unsigned char* frame = block + (size_t)i * frame_bytes;
        memcpy(frame, "\x02\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x02\x08\x00", 14);
        vectors[i].iov_base = frame;
        vectors[i].iov_len = frame_bytes;
        messages[i].msg_hdr.msg_iov = &vectors[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }

    cpu_set_t mask;
    CPU_ZERO(&mask);
    CPU_SET(cpu, &mask);
    if (sched_setaffinity(0, sizeof mask, &mask) != 0) return 1;

    const int fd = open_socket(atoi(argv[1]));
    const int64_t start = now_ns(), deadline = start + (int64_t)atoi(argv[4]) * 1000000;
    int64_t sent = 0, end = start;
    while (end < deadline) {
        const int done = sendmmsg(fd, messages, (unsigned)batch, 0);
        if (done != batch) {
            perror("sendmmsg");
            return 1;
        }
        sent += done;
        end = now_ns();
    }
    printf("%.3f\n", (double)(end - start) / (double)sent);
    free(block);
    return 0;
}
