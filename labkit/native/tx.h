// What a send engine is asked, and what it reports.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "frame_table.h"
#include "histogram.h"
#include "progress.h"
#include "stop_flag.h"

namespace labkit {

// The slots of a transmit ring, in whole blocks; the bytes of both are powers of two.
struct RingGeometry {
    std::uint32_t slots = 0;
    std::uint32_t slot_bytes = 0;
    std::uint32_t block_bytes = 0;
};

// The ring of an AF_XDP socket, and its memory: slots of one frame each in chunks as the kernel wants them.
struct XskGeometry {
    std::uint32_t ring_frames = 0;
    std::uint32_t slots = 0;
    std::uint32_t slot_bytes = 0;
    std::uint32_t chunk_bytes = 0;
    std::uint64_t memory_bytes = 0;
};

struct TxConfig {
    int ifindex = 0;
    std::uint32_t batch = 1;                  // frames a system call, 1 to what the engine takes
    std::optional<std::uint64_t> count;       // frames to attempt
    std::optional<std::int64_t> duration_ns;  // whichever of the two ends first
    std::optional<double> rate_pps;           // none: as fast as possible
    std::optional<int> cpu;                   // none: wherever the scheduler puts it
    bool qdisc_bypass = false;
    bool stamp = false;       // pktgen's header in every frame's payload, as it leaves
    std::uint32_t queue = 0;  // of af_xdp alone
    RingGeometry ring{};      // of tx_ring alone
    XskGeometry xsk{};        // of af_xdp alone
    bool even = true;         // slow frames leave one by one (kEvenPps); those of a super-packet cannot
};

enum class EndedBy { kCount, kDuration, kStop, kError };

// As reports say it to people.
inline const char* word(EndedBy ended) {
    switch (ended) {
        case EndedBy::kCount:
            return "count";
        case EndedBy::kDuration:
            return "duration";
        case EndedBy::kStop:
            return "stop";
        case EndedBy::kError:
            break;
    }
    return "error";
}

struct TxReport {
    std::uint64_t sent = 0;     // frames that a call took
    std::uint64_t refused = 0;  // frames that a call failed at, which were then skipped
    std::map<int, std::uint64_t> refused_by_errno;
    std::optional<std::uint64_t> super_packets;  // what carried the frames of gso; none: each went alone
    std::uint64_t partial_returns = 0;           // calls that took some of their frames
    std::uint64_t calls = 0;
    std::int64_t start_ns = 0;  // CLOCK_MONOTONIC just before the first call
    std::int64_t end_ns = 0;    // and just after the last; paced, the end of the last frame's slot
    std::int64_t cpu_ns = 0;
    std::int64_t involuntary_switches = 0;
    bool qdisc_bypass = false;      // in effect
    std::optional<bool> zero_copy;  // of af_xdp: whether the device reads its memory, or the kernel copies
    std::optional<int> fatal_errno;
    bool paced = false;
    Histogram gaps;                  // paced: times between the starts of successive calls
    std::uint32_t burst_frames = 0;  // paced: most frames that left together
    EndedBy ended_by = EndedBy::kError;
};

// The most messages that one sendmmsg() takes (kernel: UIO_MAXIOV in __sys_sendmmsg).
constexpr std::uint32_t kMaxBatch = 1024;

// The most segments of a super-packet that any kernel takes: 128 on 6.18, 64 before (measured; EINVAL
// beyond).
constexpr std::uint32_t kMaxSegments = 128;

// The most live frames a bpf() call is asked for, 2 ms into an XDP program: the stop flag waits for a call.
constexpr std::uint32_t kMaxLiveFrames = 16384;

// All send the table's frames in order, over and over, until count, duration, stop or a fatal error.
// Throw std::system_error (socket) and std::invalid_argument (config); what fails later is reported.
TxReport tx_send(const FrameTable& table, const TxConfig& config, const StopFlag& stop, Progress& progress);
TxReport tx_sendmmsg(const FrameTable& table, const TxConfig& config, const StopFlag& stop,
                     Progress& progress);
// Through a mapped ring, a batch a kick.
TxReport tx_ring(const FrameTable& table, const TxConfig& config, const StopFlag& stop, Progress& progress);
// UDP frames as segments of super-packets, a batch each: frame after frame of the table, each a batch long.
TxReport tx_gso(const FrameTable& table, const TxConfig& config, const StopFlag& stop, Progress& progress);
// Through the rings of an AF_XDP socket, past the queueing discipline, a batch a wake-up.
TxReport tx_xsk(const FrameTable& table, const TxConfig& config, const StopFlag& stop, Progress& progress);
// As live frames of an XDP program, a batch a bpf() call. `sent` are those that the program redirected: what
// the device did with them, no call tells.
TxReport tx_xdp(const FrameTable& table, const TxConfig& config, const StopFlag& stop, Progress& progress);

}  // namespace labkit
