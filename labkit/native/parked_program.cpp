#include "parked_program.h"

#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <thread>

namespace labkit::bpf {
namespace {

constexpr int kLoopback = 1;  // every network namespace begins with it

// RTM_SETLINK with IFLA_XDP, which leaves no file descriptor whose closing would wait for other CPUs.
struct AttachRequest {
    nlmsghdr header{};
    ifinfomsg link{};
    nlattr xdp{};
    nlattr program{};
    std::int32_t program_fd = 0;
    nlattr flags{};
    std::uint32_t flag_bits = 0;
};

template <class T>
constexpr std::uint16_t bytes_of() {
    return static_cast<std::uint16_t>(sizeof(T));
}

AttachRequest attach_request(int program_fd) {
    AttachRequest request;
    request.header = {bytes_of<AttachRequest>(), RTM_SETLINK, NLM_F_REQUEST | NLM_F_ACK, 0, 0};
    request.link.ifi_family = AF_UNSPEC;
    request.link.ifi_index = kLoopback;
    constexpr std::uint16_t kNumber = bytes_of<nlattr>() + bytes_of<std::uint32_t>();
    request.xdp = {bytes_of<nlattr>() + 2 * kNumber, IFLA_XDP | NLA_F_NESTED};
    request.program = {kNumber, IFLA_XDP_FD};
    request.program_fd = program_fd;
    request.flags = {kNumber, IFLA_XDP_FLAGS};
    request.flag_bits = XDP_FLAGS_SKB_MODE;
    return request;
}

// Returns 0 or errno.
int attach(int netlink, int program_fd) {
    const AttachRequest request = attach_request(program_fd);
    struct {
        nlmsghdr header;
        nlmsgerr error;
        char request[sizeof(AttachRequest) + 256];
    } answer{};
    if (send(netlink, &request, sizeof request, 0) < 0) return errno;
    if (recv(netlink, &answer, sizeof answer, 0) < 0) return errno;
    return answer.header.nlmsg_type == NLMSG_ERROR ? -answer.error.error : EPROTO;
}

struct Opened {
    int netlink = -1;
    int error = 0;
};

// On a thread that does nothing else, for it stays in the namespace.
Opened open_namespace(int program_fd) {
    if (unshare(CLONE_NEWNET) != 0) return {-1, errno};
    const int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (netlink < 0) return {-1, errno};
    return {netlink, attach(netlink, program_fd)};
}

int parked(const Program& program) {
    Opened opened;
    std::thread([&] { opened = open_namespace(program.fd()); }).join();
    if (opened.error != 0) {
        if (opened.netlink >= 0) close(opened.netlink);
        throw std::system_error(opened.error, std::generic_category(),
                                "XDP program on the loopback of a network namespace");
    }
    return opened.netlink;
}

}  // namespace

ParkedProgram::ParkedProgram(const Program& program) : namespace_(parked(program)) {}

}  // namespace labkit::bpf
