#include "rx_frame.h"

#include <linux/if_ether.h>
#include <netinet/in.h>

#include <cstring>

namespace labkit {
namespace {

constexpr std::size_t kTypeAt = 12;

// Ones' complement sum in the machine's own byte order, folded to 16 bits (RFC 1071, 2 B and C).
std::uint16_t own_order_sum(const std::uint8_t* at, std::size_t bytes, std::uint64_t sum) {
    for (; bytes >= sizeof(std::uint32_t); at += sizeof(std::uint32_t), bytes -= sizeof(std::uint32_t)) {
        std::uint32_t part;
        std::memcpy(&part, at, sizeof part);
        sum += part;
    }
    std::uint32_t rest = 0;
    std::memcpy(&rest, at, bytes);
    sum += rest;
    while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<std::uint16_t>(sum);
}

std::optional<UdpPlace> checked(const UdpPlace& place, const std::uint8_t* bytes, std::size_t end) {
    if (place.udp_at + kUdpBytes > end) return std::nullopt;
    UdpPlace found = place;
    found.udp_bytes = word(bytes + place.udp_at + 4);
    if (found.udp_bytes < kUdpBytes || place.udp_at + found.udp_bytes > end) return std::nullopt;
    return found;
}

}  // namespace

std::optional<UdpPlace> udp_place(const std::uint8_t* bytes, std::size_t frame_bytes) {
    std::size_t type_at = kTypeAt;
    while (type_at + kVlanTagBytes + 2 <= frame_bytes && is_vlan_tag(word(bytes + type_at)))
        type_at += kVlanTagBytes;
    const std::size_t ip_at = type_at + 2;
    if (ip_at + kUdpBytes > frame_bytes) return std::nullopt;
    const std::uint16_t type = word(bytes + type_at);
    const std::uint8_t* const ip = bytes + ip_at;
    if (type == ETH_P_IP && ip_at + kIpv4Bytes <= frame_bytes) {
        const std::size_t header = std::size_t{4} * (ip[0] & 0x0f);
        if (ip[0] >> 4 != 4 || header < kIpv4Bytes || ip[9] != IPPROTO_UDP) return std::nullopt;
        if ((word(ip + 6) & kFragmentBits) != 0) return std::nullopt;
        return checked({ip_at, ip_at + header, 0, false}, bytes, frame_bytes);
    }
    if (type == ETH_P_IPV6 && ip_at + kIpv6Bytes <= frame_bytes) {
        if (ip[0] >> 4 != 6 || ip[6] != IPPROTO_UDP) return std::nullopt;
        return checked({ip_at, ip_at + kIpv6Bytes, 0, true}, bytes, frame_bytes);
    }
    return std::nullopt;
}

bool udp_checksum_holds(const std::uint8_t* bytes, const UdpPlace& place) {
    if (word(bytes + place.udp_at + kUdpChecksumAt) == 0) return !place.ipv6;
    // the pseudo header: addresses, protocol and length (RFC 768, RFC 8200 8.1)
    const std::size_t addresses = place.ipv6 ? 32 : 8;
    const std::size_t addresses_at = place.ip_at + (place.ipv6 ? 8 : 12);
    const std::uint64_t fixed =
        htons(IPPROTO_UDP) + std::uint64_t{htons(static_cast<std::uint16_t>(place.udp_bytes))};
    const std::uint64_t pseudo = own_order_sum(bytes + addresses_at, addresses, fixed);
    return own_order_sum(bytes + place.udp_at, place.udp_bytes, pseudo) == 0xffff;
}

}  // namespace labkit
