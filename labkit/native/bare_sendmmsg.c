/* The bare loop that the sendmmsg engine is measured against: same socket options, nothing counted but
 * packets. Arguments as in bare.h; prints nanoseconds per packet. */
#include "bare.h"

int main(int argc, char** argv) {
    const struct asked asked = read_arguments(argc, argv);
    static struct mmsghdr messages[MAX_BATCH];
    static struct iovec vectors[MAX_BATCH];
    unsigned char* block = calloc((size_t)asked.batch, asked.frame_bytes);
    for (int i = 0; i < asked.batch; ++i) {
        unsigned char* frame = block + (size_t)i * asked.frame_bytes;
        write_frame(frame, asked.frame_bytes);
        vectors[i].iov_base = frame;
        vectors[i].iov_len = asked.frame_bytes;
        messages[i].msg_hdr.msg_iov = &vectors[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    const int fd = open_socket(asked.ifindex);
    const int64_t start = now_ns();
    int64_t sent = 0, end = start;
    while (end < start + asked.duration_ns) {
        const int done = sendmmsg(fd, messages, (unsigned)asked.batch, 0);
        if (done < 0 && !was_full()) fail("sendmmsg");
        sent += done > 0 ? done : 0;
        end = now_ns();
    }
    print_ns_per_packet(start, end, sent);
    free(block);
    return 0;
}
