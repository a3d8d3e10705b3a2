/* The bare loop that the xdp_live engine is measured against: four instructions, one frame over and over.
 * Arguments as in bare.h, BATCH being the frames a call; prints nanoseconds per frame. */
#define _GNU_SOURCE
#define BATCH_LIMIT 16384
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bare.h"

enum { PREPARED_TOGETHER = 64, LOOPBACK = 1 };

static int load(int ifindex) {
    const struct bpf_insn program[] = {{BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_1, 0, 0, ifindex},
                                       {BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_2, 0, 0, 0},
                                       {BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_redirect},
                                       {BPF_JMP | BPF_EXIT, 0, 0, 0, 0}};
    union bpf_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.prog_type = BPF_PROG_TYPE_XDP;
    attributes.insns = (uintptr_t)program;
    attributes.insn_cnt = sizeof program / sizeof program[0];
    attributes.license = (uintptr_t)"Proprietary";
    const int fd = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attributes, sizeof attributes);
    if (fd < 0) fail("BPF_PROG_LOAD");
    return fd;
}

/* A program that is attached nowhere makes each call wait 24 ms (kernel/bpf/dispatcher.c): it is put on the
 * loopback of a namespace that nothing else is in. The process's end closes what is opened here. */
static void park(int program) {
    union bpf_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.link_create.prog_fd = (uint32_t)program;
    attributes.link_create.target_ifindex = LOOPBACK;
    attributes.link_create.attach_type = BPF_XDP;
    attributes.link_create.flags = XDP_FLAGS_SKB_MODE;
    const int home = open("/proc/self/ns/net", O_RDONLY);
    if (home < 0 || unshare(CLONE_NEWNET) != 0) fail("unshare");
    if (open("/proc/self/ns/net", O_RDONLY) < 0) fail("namespace");
    if (syscall(SYS_bpf, BPF_LINK_CREATE, &attributes, sizeof attributes) < 0) fail("BPF_LINK_CREATE");
    if (setns(home, CLONE_NEWNET) != 0) fail("setns");
}

int main(int argc, char** argv) {
    const struct asked asked = read_arguments(argc, argv);
    unsigned char frame[MAX_FRAME_BYTES];
    write_frame(frame, asked.frame_bytes);
    const int program = load(asked.ifindex);
    park(program);
    union bpf_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.test.prog_fd = (uint32_t)program;
    attributes.test.data_in = (uintptr_t)frame;
    attributes.test.data_size_in = (uint32_t)asked.frame_bytes;
    attributes.test.repeat = (uint32_t)asked.batch;
    attributes.test.flags = BPF_F_TEST_XDP_LIVE_FRAMES;
    attributes.test.batch_size = PREPARED_TOGETHER;
    const int64_t start = now_ns();
    int64_t sent = 0, end = start;
    while (end < start + asked.duration_ns) {
        if (syscall(SYS_bpf, BPF_PROG_TEST_RUN, &attributes, sizeof attributes) != 0)
            fail("BPF_PROG_TEST_RUN");
        sent += asked.batch;
        end = now_ns();
    }
    print_ns_per_packet(start, end, sent);
    return 0;
}
