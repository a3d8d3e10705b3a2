#include "rx_capture.h"

#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

// Linux 4.20 and 5.11; the headers may be older than the kernel.
#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif
#ifndef PACKET_FANOUT_FLAG_IGNORE_OUTGOING
#define PACKET_FANOUT_FLAG_IGNORE_OUTGOING 0x4000
#endif

namespace labkit {
namespace {

// Longest sleep between two looks at the stop flag.
constexpr int kWaitMs = 5;

[[noreturn]] void fail(const std::string& what) {
    throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

// Protocol 0: nothing arrives before the ring is there and `start` binds the socket (man 7 packet).
CaptureSocket::CaptureSocket(int ifindex)
    : fd_(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0)), ifindex_(ifindex) {
    if (fd_ < 0) fail("packet socket");
}

CaptureSocket::~CaptureSocket() { close(fd_); }

void CaptureSocket::start(bool promiscuous) {
    const int on = 1;
    // what this end sends would take room in the ring; a kernel that cannot leave it out marks it
    setsockopt(fd_, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on);
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = ifindex_;
    if (bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        fail("bind to interface " + std::to_string(ifindex_));
    }
    if (!promiscuous) return;
    packet_mreq wanted{};
    wanted.mr_ifindex = ifindex_;
    wanted.mr_type = PACKET_MR_PROMISC;
    if (setsockopt(fd_, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &wanted, sizeof wanted) != 0) {
        fail("promiscuous mode of interface " + std::to_string(ifindex_));
    }
}

std::uint32_t CaptureSocket::share(std::optional<std::uint32_t> group) {
    constexpr std::uint32_t kNumber = 0xffff;
    const std::uint32_t kind = PACKET_FANOUT_HASH | PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
    const std::uint32_t unique = group ? 0 : PACKET_FANOUT_FLAG_UNIQUEID;
    std::uint32_t value = group.value_or(0) | (kind | unique) << 16;
    socklen_t size = sizeof value;
    if (setsockopt(fd_, SOL_PACKET, PACKET_FANOUT, &value, sizeof value) != 0 ||
        getsockopt(fd_, SOL_PACKET, PACKET_FANOUT, &value, &size) != 0) {
        fail("group of packet sockets");
    }
    return value & kNumber;
}

CaptureCounts CaptureSocket::counts() {
    // rings of version 3 tell a third number, of which plain sockets leave the place as it is
    tpacket_stats_v3 since{};
    socklen_t size = sizeof since;
    if (getsockopt(fd_, SOL_PACKET, PACKET_STATISTICS, &since, &size) == 0) {
        counts_.kept += since.tp_packets - since.tp_drops;  // the first includes the second (man 7 packet)
        counts_.dropped += since.tp_drops;
    }
    return counts_;
}

void CaptureSocket::wait() const {
    pollfd waiting{fd_, POLLIN, 0};
    if (poll(&waiting, 1, kWaitMs) <= 0 || (waiting.revents & POLLERR) == 0) return;
    // a device that went down says so once; until that is read every poll comes back at once
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
}

}  // namespace labkit
