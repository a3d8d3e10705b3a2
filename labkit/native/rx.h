// What a receiving sink is asked, and what it reports.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "histogram.h"
#include "progress.h"
#include "rx_known.h"
#include "stop_flag.h"

namespace labkit {

struct RxConfig {
    int ifindex = 0;
    RxCheck check{};
    // Frames that a paced sender hands over together, when the first of them is due; none: no frame has a
    // due time.
    std::optional<std::uint32_t> burst_frames;
    bool promiscuous = false;        // a real device else keeps frames to foreign addresses to itself
    std::uint32_t block_bytes = 0;   // of rx_ring alone
    std::uint32_t blocks = 0;        // of rx_ring alone
    std::uint32_t retire_ms = 0;     // of rx_ring alone: a block that is not full is handed over then
    std::uint32_t batch = 0;         // of socket alone: frames a system call
    std::uint32_t buffer_bytes = 0;  // of socket alone
};

struct RxReport {
    std::uint64_t received = 0;  // frames of ours, corrupted ones included
    std::uint64_t foreign = 0;   // frames of others, and what this end itself sent
    std::uint64_t corrupted = 0;
    std::uint64_t distinct = 0;  // numbers that came at least once
    std::uint64_t duplicates = 0;
    std::uint64_t reordered = 0;
    std::uint64_t beyond_window = 0;   // of the reordered: too late to tell whether also duplicates
    std::uint64_t kernel_dropped = 0;  // for want of room in the ring or the socket's buffer
    Histogram latency_ns;              // from when a frame was due until it was seen
    std::uint64_t latency_most_ns = 0;
    std::int64_t cpu_ns = 0;
    bool drained = false;  // whether everything that the kernel had kept was read in the end
};

// Counts frames of one socket.
class Arrivals {
  public:
    Arrivals(const FrameTable& table, const RxConfig& config, const Progress& sender);

    // Frames follow that were there at `now_ns` of CLOCK_MONOTONIC.
    void batch(std::int64_t now_ns);
    void frame(const ArrivedFrame& frame);

    // All frames so far, those of others included.
    std::uint64_t seen() const { return report_.received + report_.foreign; }
    std::uint64_t received() const { return report_.received; }
    RxReport report() const;

  private:
    SentBytes as_sent(const ArrivedFrame& frame);
    void time(std::int64_t place);

    KnownFrames known_;
    SequenceTracker tracker_;
    const Progress& sender_;
    const std::optional<std::uint32_t> burst_frames_;
    std::vector<std::uint8_t> tagged_;  // a frame with its tag back in its place
    RxReport report_;
    std::int64_t arrival_ns_ = 0;
    std::optional<std::int64_t> start_ns_;
    double frame_ns_ = 0;
};

}  // namespace labkit
