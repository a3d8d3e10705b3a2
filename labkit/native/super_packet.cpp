#include "super_packet.h"

#include <linux/if_ether.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "wire_words.h"

namespace labkit {
namespace {

constexpr std::size_t kIpAt = ETH_HLEN;
constexpr std::size_t kMostIpBytes = 65535;

// linux/virtio_net.h; Linux 6.2 brought the last.
constexpr std::uint8_t kNeedsChecksum = 1;
constexpr std::uint8_t kGsoNone = 0;
constexpr std::uint8_t kGsoUdpL4 = 5;

[[noreturn]] void refuse(std::size_t index, const char* why) {
    throw std::invalid_argument("frame " + std::to_string(index) + ": " + why +
                                "; only UDP over IPv4 or IPv6 goes out in super-packets, take engine "
                                "'sendmmsg' for other frames");
}

}  // namespace

SuperPacket::SuperPacket(iovec frame, std::size_t index) {
    const auto* bytes = static_cast<const std::uint8_t*>(frame.iov_base);
    if (frame.iov_len < kIpAt + kIpv4Bytes + kUdpBytes) refuse(index, "too short for UDP over IP");
    const std::uint16_t ethertype = word(bytes + 12);
    ipv6_ = ethertype == ETH_P_IPV6;
    if (!ipv6_ && ethertype != ETH_P_IP) refuse(index, "neither IPv4 nor IPv6 behind the MAC addresses");
    if (ipv6_) {
        check_ipv6(frame, index);
    } else {
        check_ipv4(frame, index);
    }
    check_udp(frame, index);
    header_bytes_ = udp_at_ + kUdpBytes;
    payload_ = {static_cast<std::uint8_t*>(frame.iov_base) + header_bytes_, frame.iov_len - header_bytes_};
    std::copy(bytes, bytes + header_bytes_, head_.bytes.begin());
    head_.offload.flags = kNeedsChecksum;
    head_.offload.header_bytes = static_cast<std::uint16_t>(header_bytes_);
    head_.offload.checksum_from = static_cast<std::uint16_t>(udp_at_);
    head_.offload.checksum_at = 6;
    set_segments(1);
}

void SuperPacket::check_ipv4(iovec frame, std::size_t index) {
    const auto* ip = static_cast<const std::uint8_t*>(frame.iov_base) + kIpAt;
    udp_at_ = kIpAt + std::size_t{4} * (ip[0] & 0x0f);
    if (ip[0] >> 4 != 4 || udp_at_ < kIpAt + kIpv4Bytes) refuse(index, "no IPv4 header");
    if (ip[9] != IPPROTO_UDP) refuse(index, "IPv4 without UDP");
    if ((word(ip + 6) & kFragmentBits) != 0) refuse(index, "a fragment");
    if (word(ip + 2) != frame.iov_len - kIpAt) refuse(index, "IPv4 says another length than the frame has");
}

void SuperPacket::check_ipv6(iovec frame, std::size_t index) {
    const auto* ip = static_cast<const std::uint8_t*>(frame.iov_base) + kIpAt;
    udp_at_ = kIpAt + kIpv6Bytes;
    if (frame.iov_len < udp_at_ + kUdpBytes) refuse(index, "too short for UDP over IP");
    if (ip[0] >> 4 != 6) refuse(index, "no IPv6 header");
    if (ip[6] != IPPROTO_UDP) refuse(index, "IPv6 without UDP right behind it");
    if (word(ip + 4) != frame.iov_len - udp_at_) refuse(index, "IPv6 says another length than the frame has");
}

void SuperPacket::check_udp(iovec frame, std::size_t index) {
    if (frame.iov_len <= udp_at_ + kUdpBytes) refuse(index, "no payload to make segments of");
    const auto* udp = static_cast<const std::uint8_t*>(frame.iov_base) + udp_at_;
    if (word(udp + 4) != frame.iov_len - udp_at_) refuse(index, "UDP says another length than the frame has");
    if (word(udp + 6) == 0) refuse(index, "a UDP checksum of 0, where the kernel fills one in");
}

std::uint32_t SuperPacket::most_segments() const {
    const std::size_t ip_headers = header_bytes_ - kIpAt - (ipv6_ ? kIpv6Bytes : 0);
    return static_cast<std::uint32_t>((kMostIpBytes - ip_headers) / payload_.iov_len);
}

void SuperPacket::set_segments(std::uint32_t segments) {
    if (segments == segments_) return;
    segments_ = segments;
    // a single segment is no super-packet: the kernel only fills in its checksum
    head_.offload.gso_type = segments > 1 ? kGsoUdpL4 : kGsoNone;
    head_.offload.segment_bytes = static_cast<std::uint16_t>(segments > 1 ? payload_.iov_len : 0);
    const std::size_t udp_bytes = kUdpBytes + segments * payload_.iov_len;
    set_ip_length(udp_bytes);
    set_word(at(udp_at_ + 4), udp_bytes);
    // the kernel adds the sum of header and payload to that of the pseudo header (CHECKSUM_PARTIAL)
    const std::size_t addresses = ipv6_ ? 32 : 8;
    const std::size_t addresses_at = kIpAt + (ipv6_ ? 8 : 12);
    set_word(at(udp_at_ + 6),
             folded_sum(at(addresses_at), addresses, IPPROTO_UDP + static_cast<std::uint32_t>(udp_bytes)));
}

void SuperPacket::set_ip_length(std::size_t udp_bytes) {
    if (ipv6_) {
        set_word(at(kIpAt + 4), udp_bytes);
        return;
    }
    const std::size_t ip_bytes = udp_at_ - kIpAt;
    set_word(at(kIpAt + 2), ip_bytes + udp_bytes);
    set_word(at(kIpAt + 10), 0);
    set_word(at(kIpAt + 10), ~folded_sum(at(kIpAt), ip_bytes, 0) & 0xffff);
}

}  // namespace labkit
