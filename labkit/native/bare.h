/* What the bare loops share: arguments, clock, pin, socket. IFINDEX CPU BATCH DURATION_MS FRAME_BYTES
 * [FRAME], the frame in hexadecimal digits; without it they send a frame of their own. */
#pragma once
#define _GNU_SOURCE
#include <errno.h>
#include <linux/if_packet.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

/* A loop whose calls take more says so before it includes this. */
#ifndef BATCH_LIMIT
#define BATCH_LIMIT 1024
#endif

enum { MAX_BATCH = BATCH_LIMIT, MIN_FRAME_BYTES = 43, MAX_FRAME_BYTES = 9216 };

struct asked {
    int ifindex, batch;
    size_t frame_bytes;
    int64_t duration_ns;
};

static const char* frame_digits; /* FRAME, where it was given */

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void fail(const char* what) {
    perror(what);
    exit(1);
}

/* Whether a call that failed may be made again: the device or the buffer was full. */
__attribute__((unused)) static int was_full(void) { return errno == ENOBUFS || errno == EAGAIN; }

static void refuse(const char* what) {
    fprintf(stderr, "%s\n", what);
    exit(2);
}

/* Reads the arguments and pins the process. */
static struct asked read_arguments(int argc, char** argv) {
    if (argc < 6 || argc > 7) refuse("IFINDEX CPU BATCH DURATION_MS FRAME_BYTES [FRAME]");
    const struct asked asked = {.ifindex = atoi(argv[1]),
                                .batch = atoi(argv[3]),
                                .frame_bytes = (size_t)atoi(argv[5]),
                                .duration_ns = (int64_t)atoi(argv[4]) * 1000000};
    frame_digits = argv[6]; /* behind the last argument stands NULL */
    if (asked.batch < 1 || asked.batch > MAX_BATCH) refuse("batch: less than 1, or too many for one call");
    if (asked.frame_bytes < MIN_FRAME_BYTES || asked.frame_bytes > MAX_FRAME_BYTES) {
        refuse("frame: 43 to 9216 bytes");
    }
    if (frame_digits && strlen(frame_digits) != 2 * asked.frame_bytes) {
        refuse("FRAME has not two digits a byte");
    }
    cpu_set_t mask;
    CPU_ZERO(&mask);
    CPU_SET(atoi(argv[2]), &mask);
    if (sched_setaffinity(0, sizeof mask, &mask) != 0) fail("pin");
    return asked;
}

__attribute__((unused)) static int open_socket(int ifindex) {
    const int fd = socket(AF_PACKET, SOCK_RAW, 0);
    const struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_ifindex = ifindex};
    if (fd < 0 || bind(fd, (const struct sockaddr*)&address, sizeof address) != 0) fail("packet socket");
    const int bytes = 4 << 20;
    const struct timeval timeout = {0, 4000};
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) != 0) {
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    }
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    return fd;
}

/* The asked frame, or a UDP frame of 10.0.0.1 to 10.0.0.2. */
static void write_frame(unsigned char* frame, size_t bytes) {
    static const unsigned char head[42] = {2,    0, 0,  0, 0, 1, 2, 0, 0,  0,  0, 2, 8,  0,
                                           0x45, 0, 0,  0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0,
                                           0,    1, 10, 0, 0, 2, 0, 9, 0,  9,  0, 0, 0,  1};
    if (frame_digits) {
        for (size_t i = 0; i < bytes; ++i) {
            if (sscanf(frame_digits + 2 * i, "%2hhx", &frame[i]) != 1) refuse("FRAME: not a digit");
        }
        return;
    }
    memset(frame, 0, bytes);
    memcpy(frame, head, sizeof head);
    frame[16] = (unsigned char)((bytes - 14) >> 8);
    frame[17] = (unsigned char)(bytes - 14);
    frame[38] = (unsigned char)((bytes - 34) >> 8);
    frame[39] = (unsigned char)(bytes - 34);
}

static void print_ns_per_packet(int64_t start, int64_t end, int64_t sent) {
    printf("%.3f\n", (double)(end - start) / (double)sent);
}
