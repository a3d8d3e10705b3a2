#include "stamp.h"

#include <linux/if_ether.h>
#include <netinet/in.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace labkit {
namespace {

[[noreturn]] void refuse(std::size_t index, const std::string& why) {
    throw std::invalid_argument("frame " + std::to_string(index) + ": " + why +
                                "; a stamp is 16 bytes of payload of UDP over IPv4 or IPv6");
}

[[noreturn]] void too_short(std::size_t index, std::size_t has, std::size_t needed) {
    refuse(index, std::to_string(has) + " bytes hold no stamp, it takes " + std::to_string(needed));
}

// Where the UDP header lies behind an IPv4 header at `ip_at`.
std::size_t behind_ipv4(const std::uint8_t* ip, std::size_t ip_at, std::size_t index) {
    const std::size_t header_bytes = std::size_t{4} * (ip[0] & 0x0f);
    if (ip[0] >> 4 != 4 || header_bytes < kIpv4Bytes) refuse(index, "no IPv4 header");
    if (ip[9] != IPPROTO_UDP) refuse(index, "IPv4 without UDP");
    if ((word(ip + 6) & kFragmentBits) != 0) refuse(index, "a fragment");
    return ip_at + header_bytes;
}

std::size_t behind_ipv6(const std::uint8_t* ip, std::size_t ip_at, std::size_t index) {
    if (ip[0] >> 4 != 6) refuse(index, "no IPv6 header");
    if (ip[6] != IPPROTO_UDP) refuse(index, "IPv6 without UDP right behind it");
    return ip_at + kIpv6Bytes;
}

}  // namespace

StampPlace stamp_place(iovec frame, std::size_t index) {
    const auto* bytes = static_cast<const std::uint8_t*>(frame.iov_base);
    std::size_t ip_at = ETH_HLEN;
    const auto holds = [&](std::size_t ip_bytes) {
        const std::size_t needed = ip_at + ip_bytes + kUdpBytes + kStampBytes;
        if (frame.iov_len < needed) too_short(index, frame.iov_len, needed);
    };
    holds(kIpv4Bytes);
    while (is_vlan_tag(word(bytes + ip_at - 2))) {
        ip_at += kVlanTagBytes;
        holds(kIpv4Bytes);
    }
    const std::uint16_t ethertype = word(bytes + ip_at - 2);
    std::size_t udp_at = 0;
    if (ethertype == ETH_P_IP) {
        udp_at = behind_ipv4(bytes + ip_at, ip_at, index);
    } else if (ethertype == ETH_P_IPV6) {
        udp_at = behind_ipv6(bytes + ip_at, ip_at, index);
    } else {
        refuse(index, "neither IPv4 nor IPv6");
    }
    holds(udp_at - ip_at);
    const std::size_t udp_bytes = word(bytes + udp_at + 4);
    // padding behind a short datagram is no payload, and no checksum covers it
    if (udp_bytes < kUdpBytes + kStampBytes) {
        refuse(index, "its UDP length of " + std::to_string(udp_bytes) + " holds no stamp, it takes 24");
    }
    const std::uint8_t* payload = bytes + udp_at + kUdpBytes;
    StampPlace place;
    place.payload_at = static_cast<std::uint32_t>(udp_at + kUdpBytes);
    const std::uint32_t checksum = word(payload - 2);
    place.summed = checksum != 0;
    std::uint32_t sum = ~checksum & 0xffff;
    for (std::size_t i = 0; i < kStampBytes; i += 2) sum += ~std::uint32_t{word(payload + i)} & 0xffff;
    place.sum = folded(sum);
    return place;
}

Stamper::Stamper(const FrameTable& table) {
    places_.reserve(table.size());
    for (std::size_t i = 0; i < table.size(); ++i) places_.push_back(stamp_place(table.frame(i), i));
}

}  // namespace labkit
