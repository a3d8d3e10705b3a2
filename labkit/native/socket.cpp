#include "socket.h"

#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <thread>

namespace labkit {
namespace {

// The default of 212992 bytes holds some 270 small frames (an skb costs far more than its bytes) and would
// tie throughput to the device's TX completions; the kernel doubles the value for its own overhead.
constexpr int kSendBufferBytes = 4 << 20;

// A full buffer makes a call sleep; it must wake to look at the stop flag, which acts within 10 ms.
// 4 ms is one tick at HZ=250, which the kernel may stretch to two.
constexpr suseconds_t kSendTimeoutUs = 4'000;

[[noreturn]] void fail(const std::string& what) {
    throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

void raise_send_buffer(int fd) {
    const int bytes = kSendBufferBytes;
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) == 0) return;
    // without CAP_NET_ADMIN in the initial user namespace: as much as net.core.wmem_max allows
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

void close_apart(int fd) {
    try {
        std::thread(close, fd).detach();
    } catch (const std::system_error&) {
        close(fd);  // no thread to be had
    }
}

// Protocol 0 at socket() and bind(): any other makes the socket a receive tap, which every frame on the host
// then pays for (kernel: packet_rcv; man 7 packet).
PacketSocket::PacketSocket(int ifindex, bool qdisc_bypass)
    : fd_(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0)), ifindex_(ifindex) {
    if (fd_ < 0) fail("packet socket");
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_ifindex = ifindex;
    if (bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        const int error = errno;
        close(fd_);
        errno = error;
        fail("bind to interface " + std::to_string(ifindex));
    }
    raise_send_buffer(fd_);
    const timeval timeout{0, kSendTimeoutUs};
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    const int on = 1;
    qdisc_bypass_ = qdisc_bypass && setsockopt(fd_, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on) == 0;
}

std::size_t PacketSocket::longest_frame() const {
    ifreq request{};
    request.ifr_ifindex = ifindex_;
    if (ioctl(fd_, SIOCGIFNAME, &request) != 0 || ioctl(fd_, SIOCGIFMTU, &request) != 0) return 0;
    return static_cast<std::size_t>(request.ifr_mtu) + ETH_HLEN;
}

}  // namespace labkit
