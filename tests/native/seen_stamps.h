// Frames that tell where in the table they lie, and what their stamps say.
#pragma once

#include <cstdint>
#include <vector>

#include "frame_table.h"
#include "harness.h"
#include "stamp.h"
#include "udp_frames.h"

inline constexpr std::size_t kFrameBytes = 60;
inline constexpr std::size_t kPayloadAt = 42;
inline constexpr std::uint32_t kStartSeconds = 1'700'000'001;  // FakeClock's first date

struct Seen {
    std::uint32_t sequence, seconds, microseconds;
    int port;
};

inline std::uint32_t long_word(const std::uint8_t* at) {
    return std::uint32_t{labkit::word(at)} << 16 | labkit::word(at + 2);
}

inline Seen seen(const std::uint8_t* frame) {
    const std::uint8_t* at = frame + kPayloadAt;
    EQUAL(long_word(at), labkit::kStampMagic);
    return {long_word(at + 4), long_word(at + 8), long_word(at + 12), labkit::word(frame + 34)};
}

// UDP frames, each with its place in the table as its source port.
inline labkit::FrameTable ports(std::size_t frames) {
    std::vector<std::uint8_t> block;
    std::vector<std::uint64_t> offsets;
    for (std::size_t i = 0; i < frames; ++i) {
        std::vector<std::uint8_t> frame = udp_frame(kFrameBytes);
        labkit::set_word(&frame[34], i);
        offsets.push_back(block.size());
        block.insert(block.end(), frame.begin(), frame.end());
    }
    return labkit::FrameTable(block.data(), block.size(), offsets,
                              std::vector<std::uint32_t>(frames, kFrameBytes));
}
