// Numbers as they stand on the wire, high byte first, the ones' complement sum over them, and what headers
// have in common.
#pragma once

#include <linux/if_ether.h>

#include <cstddef>
#include <cstdint>

namespace labkit {

inline std::uint16_t word(const std::uint8_t* at) { return static_cast<std::uint16_t>(at[0] << 8 | at[1]); }

inline void set_word(std::uint8_t* at, std::size_t value) {
    at[0] = static_cast<std::uint8_t>(value >> 8);
    at[1] = static_cast<std::uint8_t>(value);
}

inline void set_long_word(std::uint8_t* at, std::uint32_t value) {
    set_word(at, value >> 16);
    set_word(at + 2, value & 0xffff);
}

// Of an 802.1Q one, packet sockets let a frame be longer than the MTU allows by so much.
constexpr std::size_t kVlanTagBytes = 4;

// Whether a VLAN tag follows: 802.1Q, 802.1ad, or an outer tag from before 802.1ad.
inline bool is_vlan_tag(std::uint16_t ethertype) {
    return ethertype == ETH_P_8021Q || ethertype == ETH_P_8021AD || ethertype == ETH_P_QINQ1;
}

constexpr std::size_t kIpv4Bytes = 20;  // without options
constexpr std::size_t kIpv6Bytes = 40;
constexpr std::size_t kUdpBytes = 8;

// Of IPv4's word of flags: more fragments follow, or this one begins behind others.
constexpr std::uint16_t kFragmentBits = 0x3fff;

// The 16 bits that a sum of words comes to once its carries are added back in (RFC 1071).
inline std::uint32_t folded(std::uint32_t sum) {
    while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

// The ones' complement sum of `bytes` bytes, an even number, on top of `sum`.
inline std::uint32_t folded_sum(const std::uint8_t* at, std::size_t bytes, std::uint32_t sum) {
    for (std::size_t i = 0; i < bytes; i += 2) sum += word(at + i);
    return folded(sum);
}

}  // namespace labkit
