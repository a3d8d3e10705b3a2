// UDP frames as super-packets that the kernel cuts into segments again (UDP GSO behind a virtio_net_hdr).
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "frame_table.h"

namespace labkit {

// struct virtio_net_hdr; linux/virtio_net.h has a field called class, which no C++ compiler takes.
struct OffloadHeader {
    std::uint8_t flags = 0;
    std::uint8_t gso_type = 0;
    std::uint16_t header_bytes = 0;
    std::uint16_t segment_bytes = 0;
    std::uint16_t checksum_from = 0;
    std::uint16_t checksum_at = 0;
};

// The headers of one frame and its payload, to be sent `segments` times as one super-packet.
class SuperPacket {
  public:
    // Ethernet, the longest IPv4 header, UDP.
    static constexpr std::size_t kLongestHeaders = 14 + 60 + 8;

    // Throws std::invalid_argument, naming frame `index`, for anything but UDP over IPv4 or IPv6 without
    // tags, options of IPv6, fragments, padding or a checksum of 0 (the kernel fills checksums in).
    SuperPacket(iovec frame, std::size_t index);

    // Writes the lengths and checksums of `segments` times the payload, where others stand.
    void set_segments(std::uint32_t segments);

    // Segments of this payload that one IP packet holds.
    std::uint32_t most_segments() const;
    std::size_t header_bytes() const { return header_bytes_; }
    iovec payload() const { return payload_; }
    // The offload header and the headers behind it.
    iovec head() { return {&head_, sizeof head_.offload + header_bytes_}; }

  private:
    struct Head {
        OffloadHeader offload;
        std::array<std::uint8_t, kLongestHeaders> bytes{};
    };

    std::uint8_t* at(std::size_t offset) { return head_.bytes.data() + offset; }
    void check_ipv4(iovec frame, std::size_t index);
    void check_ipv6(iovec frame, std::size_t index);
    void check_udp(iovec frame, std::size_t index);
    void set_ip_length(std::size_t udp_bytes);

    Head head_;
    iovec payload_{};
    std::size_t udp_at_ = 0;
    std::size_t header_bytes_ = 0;
    std::uint32_t segments_ = 0;
    bool ipv6_ = false;
};

}  // namespace labkit
