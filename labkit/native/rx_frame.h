// A frame as a packet socket hands it over, and where UDP lies in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "stamp.h"
#include "wire_words.h"

namespace labkit {

struct ArrivedFrame {
    const std::uint8_t* bytes = nullptr;
    std::uint32_t captured_bytes = 0;  // how much of it is there
    std::uint32_t frame_bytes = 0;     // how long it was
    // The kernel takes the outermost VLAN tag off before packet sockets see a frame (skb_vlan_untag).
    std::optional<std::uint32_t> tag;  // type and value, one behind the other
    bool outgoing = false;             // sent by this end itself
    bool unsummed = false;             // a device was to fill in its UDP checksum, and none did
};

constexpr std::size_t kAddressBytes = 12;
constexpr std::size_t kUdpChecksumAt = 6;

struct UdpPlace {
    std::size_t ip_at = 0;
    std::size_t udp_at = 0;
    std::size_t udp_bytes = 0;  // header and payload, all of them within the frame
    bool ipv6 = false;

    std::size_t payload_at() const { return udp_at + kUdpBytes; }
    bool holds_stamp() const { return udp_bytes >= kUdpBytes + kStampBytes; }
};

inline std::uint32_t long_word(const std::uint8_t* at) {
    return std::uint32_t{word(at)} << 16 | word(at + 2);
}

// UDP over IPv4 or IPv6 without extension headers, behind any tags; nothing for a fragment or for other
// frames.
std::optional<UdpPlace> udp_place(const std::uint8_t* bytes, std::size_t frame_bytes);

// Whether the UDP checksum is right; one of 0 over IPv4 says that there is none (RFC 768).
bool udp_checksum_holds(const std::uint8_t* bytes, const UdpPlace& place);

}  // namespace labkit
