#include "rx_socket.h"

#include <algorithm>
#include <cstring>

#include "clock.h"

namespace labkit {
namespace {

// Heads of frames that are longer than any of ours are kept too, to tell whose they are.
constexpr std::size_t kShortestSlot = 2048;

void set_buffer(int fd, std::uint32_t bytes) {
    const int asked = static_cast<int>(bytes);
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &asked, sizeof asked) == 0) return;
    // without CAP_NET_ADMIN in the initial user namespace: as much as net.core.rmem_max allows
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &asked, sizeof asked);
}

// What the kernel tells of a frame besides its bytes.
tpacket_auxdata more_of(msghdr& message) {
    tpacket_auxdata more{};
    for (cmsghdr* at = CMSG_FIRSTHDR(&message); at != nullptr; at = CMSG_NXTHDR(&message, at)) {
        if (at->cmsg_level == SOL_PACKET && at->cmsg_type == PACKET_AUXDATA) {
            std::memcpy(&more, CMSG_DATA(at), sizeof more);
        }
    }
    return more;
}

std::optional<std::uint32_t> tag_of(const tpacket_auxdata& more) {
    if ((more.tp_status & TP_STATUS_VLAN_VALID) == 0) return std::nullopt;
    return std::uint32_t{more.tp_vlan_tpid} << 16 | more.tp_vlan_tci;
}

}  // namespace

RxSocket::RxSocket(const RxConfig& config, std::size_t longest_frame)
    : socket_(config.ifindex), slots_(config.batch), messages_(config.batch) {
    const std::size_t slot_bytes = std::max(longest_frame, kShortestSlot);
    bytes_.resize(slot_bytes * slots_.size());
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        slots_[i].bytes = {bytes_.data() + i * slot_bytes, slot_bytes};
        messages_[i].msg_hdr.msg_name = &slots_[i].from;
        messages_[i].msg_hdr.msg_iov = &slots_[i].bytes;
        messages_[i].msg_hdr.msg_iovlen = 1;
        messages_[i].msg_hdr.msg_control = slots_[i].control;
    }
    make_ready(slots_.size());
    set_buffer(socket_.fd(), config.buffer_bytes);
    const int on = 1;
    setsockopt(socket_.fd(), SOL_PACKET, PACKET_AUXDATA, &on, sizeof on);
}

// The kernel writes over the lengths of what it may fill.
void RxSocket::make_ready(std::size_t messages) {
    for (std::size_t i = 0; i < messages; ++i) {
        messages_[i].msg_hdr.msg_namelen = sizeof(sockaddr_ll);
        messages_[i].msg_hdr.msg_controllen = sizeof slots_[i].control;
    }
}

void RxSocket::take(Arrivals& arrivals) {
    // MSG_TRUNC: how long a frame was, not how much of it there was room for
    const int done = recvmmsg(socket_.fd(), messages_.data(), static_cast<unsigned>(messages_.size()),
                              MSG_DONTWAIT | MSG_TRUNC, nullptr);
    if (done <= 0) {
        socket_.wait();
        return;
    }
    arrivals.batch(monotonic_ns());
    const auto read = static_cast<std::size_t>(done);
    for (std::size_t i = 0; i < read; ++i) {
        const std::uint32_t frame_bytes = messages_[i].msg_len;
        const auto kept = static_cast<std::uint32_t>(slots_[i].bytes.iov_len);
        const tpacket_auxdata more = more_of(messages_[i].msg_hdr);
        arrivals.frame({static_cast<const std::uint8_t*>(slots_[i].bytes.iov_base),
                        std::min(frame_bytes, kept), frame_bytes, tag_of(more),
                        slots_[i].from.sll_pkttype == PACKET_OUTGOING,
                        (more.tp_status & TP_STATUS_CSUMNOTREADY) != 0});
    }
    make_ready(read);
}

}  // namespace labkit
