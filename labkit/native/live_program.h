// The XDP program that makes frame after frame of a table out of recycled pages and sends it.
#pragma once

#include <linux/bpf.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "frame_rows.h"

namespace labkit {

// What the program keeps from one frame to the next, as the only value of an array map. It runs on one CPU at
// a time, so that plain additions do.
struct LiveState {
    std::uint64_t frames = 0;    // made so far
    std::uint64_t next_row = 0;  // byte at which the next frame's row begins
    std::int64_t date_ns = 0;  // CLOCK_REALTIME of frame 0's due time; or what it is ahead of CLOCK_MONOTONIC
    std::uint64_t frame_ns = 0;  // between due times, with kFrameNsBits binary places
};

// Runs of 78 hours fit in what is left of 64 bits, and a frame's rounding does not add up to a microsecond.
constexpr int kFrameNsBits = 16;

// Where and when each frame takes its stamp: pktgen's header at the start of the UDP payload (`stamp.h`).
struct LiveStamp {
    std::uint32_t payload_at;  // the UDP checksum lies two bytes before it
    bool summed;               // the rows' column holds the sum of all that the checksum covers besides
    bool due;                  // the time at which a frame is due, else that at which it is made
};

// Redirects every frame to `ifindex` and counts it in `state_fd`'s value, an object of LiveState. Where the
// rows have any bytes, those of the row that is due are written over the frame, which holds another one's:
// pages are recycled as they come. Where `stamp` is given, the stamp is written over that.
std::vector<bpf_insn> live_program(const FrameRows& rows, int ifindex, int state_fd, int rows_fd,
                                   const std::optional<LiveStamp>& stamp);

}  // namespace labkit
