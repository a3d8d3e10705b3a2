// What the simulated NIC is asked, and what it reports. All times are simulated picoseconds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace labkit::sim {

using Ps = std::int64_t;
constexpr Ps kNever = std::numeric_limits<Ps>::max();

// When the card raises an interrupt for finished work.
enum class Moderation {
    kInterval,  // at most one a period (Intel's EITR); period 0: at once
    kDynamic,   // the same, the period chosen by ixgbe's code of 2014 (sim_moderation.h)
    kHoldOff,   // so long after the first event, or at so many events, whichever is first
};

// What a sender does that finds its queue stopped.
enum class WhenFull {
    kSpin,    // pktgen: waits, burning its CPU
    kRefuse,  // past the qdisc: the call fails, the frame is skipped
    kQueue,   // through the qdisc: frames wait there up to its limit, then the sender sleeps
};

struct ModerationConfig {
    Moderation kind = Moderation::kInterval;
    Ps period = 0;             // interval, or hold-off time
    std::uint32_t frames = 0;  // hold-off: interrupt at this many; 0: by time alone
};

struct Config {
    // run
    Ps duration = 0;
    Ps warmup = 0;            // simulated before anything is counted
    std::uint64_t count = 0;  // frames of each lane; 0: no limit
    std::uint32_t lanes = 1;  // CPUs, each with a queue pair of its own
    std::uint32_t samples = 0;
    std::uint32_t trace = 0;  // most trace points of lane 0; 0: none
    std::uint64_t seed = 1;

    // card
    std::uint32_t tx_ring = 512;
    std::uint32_t frame_bytes = 60;
    Ps wire = 67'200;  // one frame on the wire
    Ps fetch = 0;      // doorbell to the first bit
    std::uint32_t write_back = 8;
    std::uint32_t drop_interrupt_every = 0;  // fault: every so many interrupts never arrive
    Ps carrier_lost_at = kNever;             // fault: the sender ends there, as pktgen does

    // driver
    std::uint32_t stop_descriptors = 21;  // fewer free: the queue stops
    std::uint32_t wake_descriptors = 42;
    std::uint32_t clean_limit = 256;
    ModerationConfig tx_moderation;
    ModerationConfig rx_moderation;
    bool shared_vector = true;  // Tx and Rx share an interrupt and its poll

    // CPU
    Ps packet = 0;    // everything that one frame costs its sender
    Ps burst_ps = 0;  // once a burst: the lock pair
    Ps call_ps = 0;   // once a call: the system call
    Ps doorbell = 0;  // once a burst
    std::uint32_t burst = 1;
    std::uint32_t batch = 1;  // frames a call, where calls cost: no doorbell serves two calls
    Ps clean = 0;
    Ps interrupt = 0;
    Ps repoll = 0;
    std::uint32_t cached = 512;  // descriptors cleaned at once that are still in the cache
    Ps cache_miss = 0;           // each one beyond
    Ps shared_line = 0;          // a cache line that all lanes write once a frame: moving it over
    Ps locked_stall = 0;         // hypothesis: a doorbell's write takes so long, and locked operations wait

    // sender
    bool sends = true;
    bool injects = false;  // frames go up this CPU's receive path instead: no ring, wire or interrupt
    WhenFull when_full = WhenFull::kSpin;
    std::uint32_t queue_limit = 0;  // kQueue: frames that wait above the ring
    Ps gap = 0;              // pacing: between the due times of two frames, then never in bursts; 0: none
    bool bql = false;        // byte queue limits are kept
    bool bql_stops = false;  // and this sender heeds them
    std::uint32_t bql_min = 0;
    std::uint32_t bql_max = 1'879'048'192;
    Ps bql_hold = 1'000'000'000'000;

    // receiver
    std::uint32_t rx_ring = 512;
    std::uint32_t rx_budget = 64;
    Ps arrival_gap = 0;  // open loop: a frame every so long; 0: none
    bool poisson = false;
    Ps receive = 0;  // CPU time of a received frame

    // TCP stream: segments are sent while the window has room; the peer acknowledges every so many. Nothing
    // else arrives at such a lane.
    std::uint32_t window = 0;  // 0: not a TCP stream
    std::uint32_t ack_every = 2;
    Ps ack_delay = 0;               // last bit of the segment to first bit of its acknowledgement
    Ps ack_jitter = 0;              // and up to so much more, evenly drawn
    std::uint32_t small_queue = 0;  // segments between stack and wire (tcp_limit_output_bytes); 0: no limit
};

// Events of one lane.
enum class Count : std::size_t {
    kSent,
    kRefused,
    kCalls,
    kBursts,
    kCleaned,
    kCacheMisses,
    kTxInterrupts,
    kRxInterrupts,
    kPolls,
    kRepolls,
    kRestarts,
    kReceived,
    kMissed,
    kAcks,
    kRingWaitPs,
    kPacingWaitPs,
    kWindowWaitPs,
    kIdlePs,
    kSharedLinePs,
    kStallPs,
    kElapsedPs,
    kSize,
};
constexpr std::size_t kCounts = static_cast<std::size_t>(Count::kSize);
constexpr std::array<const char*, kCounts> kCountNames{
    "sent",           "refused",       "calls",        "bursts",         "cleaned",        "cache_misses",
    "tx_interrupts",  "rx_interrupts", "polls",        "repolls",        "restarts",       "received",
    "missed",         "acks",          "ring_wait_ps", "pacing_wait_ps", "window_wait_ps", "idle_ps",
    "shared_line_ps", "stall_ps",      "elapsed_ps"};
using Counts = std::array<std::uint64_t, kCounts>;

// A moment of lane 0: descriptors on their way to the wire, and sent but not cleaned.
struct TracePoint {
    Ps at;
    std::uint32_t waiting;
    std::uint32_t uncleaned;
    std::uint32_t interrupt;  // 1: the cleaner has just been
    std::uint32_t bql_limit;
    std::uint64_t bql_inflight;  // bytes queued and not yet cleaned
};

struct LaneReport {
    Counts counts{};
    double waiting_ps = 0;    // sum over frames of doorbell to last bit
    double uncleaned_ps = 0;  // and of last bit to cleaned
    std::uint32_t most_in_flight = 0;
    std::uint32_t bql_limit = 0;
    std::uint32_t itr = 0;  // dynamic mode: the driver's value at the end
};

// Counts of all lanes; byte queue limits of lane 0.
struct Sample {
    Ps at;
    std::uint64_t sent;
    std::uint64_t received;
    std::uint32_t bql_limit;
    std::uint64_t bql_inflight;
};

struct Report {
    std::vector<LaneReport> lanes;
    std::vector<Sample> samples;
    std::vector<TracePoint> trace;
    std::vector<std::uint64_t> latency;  // received frames by bucket (histogram.h), all lanes
    bool carrier_lost = false;
};

// Runs the simulation. Throws std::invalid_argument for a config that no card could have.
Report simulate(const Config& config);

}  // namespace labkit::sim
