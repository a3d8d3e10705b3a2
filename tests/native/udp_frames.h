// UDP frames over IPv4, of any length from 43 bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "frame_table.h"

inline std::vector<std::uint8_t> udp_frame(std::size_t bytes) {
    std::vector<std::uint8_t> frame(bytes, 0x55);
    const std::uint8_t head[] = {2, 0,  0,  0, 0, 1,  2, 0, 0, 0,  0, 2, 8, 0, 0x45, 0, 0, 0, 0, 0, 0,
                                 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 9,    0, 9, 0, 0, 1, 1};
    for (std::size_t i = 0; i < sizeof head; ++i) frame[i] = head[i];
    const std::size_t ip_bytes = bytes - 14, udp_bytes = bytes - 34;
    frame[16] = static_cast<std::uint8_t>(ip_bytes >> 8);
    frame[17] = static_cast<std::uint8_t>(ip_bytes);
    frame[38] = static_cast<std::uint8_t>(udp_bytes >> 8);
    frame[39] = static_cast<std::uint8_t>(udp_bytes);
    return frame;
}

// `number` of them, each `bytes` long, that differ in their last byte.
inline labkit::FrameTable udp_table(std::size_t number, std::size_t bytes) {
    std::vector<std::uint64_t> offsets;
    std::vector<std::uint8_t> block;
    for (std::size_t i = 0; i < number; ++i) {
        std::vector<std::uint8_t> frame = udp_frame(bytes);
        frame.back() = static_cast<std::uint8_t>(i);
        offsets.push_back(block.size());
        block.insert(block.end(), frame.begin(), frame.end());
    }
    return labkit::FrameTable(block.data(), block.size(), offsets,
                              std::vector<std::uint32_t>(number, static_cast<std::uint32_t>(bytes)));
}
