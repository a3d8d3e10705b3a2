#include <stdexcept>
#include <string>

#include "sim_lane.h"

namespace labkit::sim {
namespace {

void check(bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(std::string("simulated NIC: ") + what);
}

// Limits that no card comes near, so that sums of times stay within 64 bits.
constexpr Ps kLongestRun = 360'000'000'000'000'000;  // 100 h
constexpr Ps kLongestCost = 1'000'000'000'000;       // 1 s
constexpr Ps kLongestFrame = 2'000'000'000;          // 2 ms: 1518 B at 10 Mbit/s take 1.2
constexpr std::uint32_t kMost = 1U << 20;

void check_run(const Config& config) {
    check(config.duration > 0 && config.duration <= kLongestRun, "duration must be above 0, at most 100 h");
    check(config.warmup >= 0 && config.warmup <= kLongestRun, "warmup must be 0 to 100 h");
    check(config.lanes >= 1 && config.lanes <= 1024, "lanes must be 1 to 1024");
    check(config.samples <= kMost && config.trace <= kMost, "at most 2^20 samples and trace points are kept");
    check(config.carrier_lost_at >= 0, "the carrier must not be lost before the start");
}

void check_card(const Config& config) {
    check(config.tx_ring <= kMost && config.rx_ring <= kMost, "a ring has at most 2^20 descriptors");
    check(config.lanes * (std::uint64_t{config.tx_ring} + config.rx_ring + config.window) <= 1U << 24,
          "the rings and windows of all lanes have at most 2^24 places");
    check(config.rx_ring > 0, "the receive ring must have a descriptor");
    check(config.stop_descriptors > 0 && config.stop_descriptors <= config.wake_descriptors &&
              config.wake_descriptors < config.tx_ring,
          "the TX ring must be larger than its wake threshold, and that no smaller than its stop threshold");
    check(config.wire > 0 && config.wire <= kLongestFrame, "a frame takes above 0 to 2 ms on the wire");
    check(config.frame_bytes > 0 && config.frame_bytes <= kMost, "a frame has 1 to 2^20 bytes");
    check(config.write_back > 0 && config.clean_limit > 0, "write-back and clean limit must be above 0");
    check(config.rx_budget > 0 && config.rx_budget <= kMost, "the receive budget must be 1 to 2^20");
}

void check_sender(const Config& config) {
    check(config.burst > 0 && config.batch > 0, "burst and batch must be above 0");
    check(config.when_full != WhenFull::kQueue || config.queue_limit > 0, "queue_limit must be above 0");
    check(config.bql_hold >= 0 && config.bql_hold <= kLongestRun, "bql_hold must be 0 to 100 h");
    if (config.window == 0) return;
    check(config.window <= kMost, "window must be at most 2^20 segments");
    check(config.ack_every > 0 && config.window >= config.ack_every, "window must hold what one ACK covers");
    check(config.arrival_gap == 0, "a TCP stream receives its acknowledgements alone");
}

void check(const Config& config) {
    check_run(config);
    check_card(config);
    check_sender(config);
    for (const Ps cost :
         {config.fetch, config.packet, config.burst_ps, config.call_ps, config.doorbell, config.clean,
          config.interrupt, config.repoll, config.cache_miss, config.shared_line, config.locked_stall,
          config.gap, config.arrival_gap, config.receive, config.ack_delay, config.ack_jitter,
          config.tx_moderation.period, config.rx_moderation.period}) {
        check(cost >= 0 && cost <= kLongestCost, "a cost or gap must be 0 to 1 s");
    }
    // A loop in which nothing takes time would not end.
    check(!config.sends || config.packet > 0, "sending must take time");
    check(config.arrival_gap == 0 || config.receive > 0, "receiving must take time");
}

template <bool kEverything>
std::uint64_t total(const std::vector<Lane<kEverything>>& lanes, Count what) {
    std::uint64_t sum = 0;
    for (const auto& lane : lanes) sum += lane.count(what);
    return sum;
}

// Always the lane that is furthest behind, the first of those at the same time, until it has caught up with
// the next one: frames of all lanes reach the wire in the order of their doorbells.
template <bool kEverything>
void advance(std::vector<Lane<kEverything>>& lanes, Ps until) {
    while (true) {
        Lane<kEverything>* behind = nullptr;
        Ps second = until;
        for (auto& lane : lanes) {
            if (lane.ended() || lane.now() >= until) continue;
            if (behind == nullptr || lane.now() < behind->now()) {
                if (behind != nullptr) second = std::min(second, behind->now());
                behind = &lane;
            } else {
                second = std::min(second, lane.now());
            }
        }
        if (behind == nullptr) return;
        behind->run_until(std::max(second, behind->now() + 1), until);
    }
}

template <bool kEverything>
Report run(const Config& config) {
    Shared shared;
    std::vector<Lane<kEverything>> lanes;
    lanes.reserve(config.lanes);
    for (std::uint32_t number = 0; number < config.lanes; ++number) {
        lanes.emplace_back(config, shared, number);
    }
    if (config.warmup > 0) advance(lanes, config.warmup);
    for (auto& lane : lanes) lane.begin();

    Report report;
    const std::uint64_t sent = total(lanes, Count::kSent), received = total(lanes, Count::kReceived);
    const std::uint32_t slices = std::max(1U, config.samples);
    for (std::uint32_t slice = 1; slice <= slices; ++slice) {
        const Ps until = config.warmup + config.duration / slices * slice;
        advance(lanes, slice == slices ? config.warmup + config.duration : until);
        if (config.samples == 0) continue;
        Ps at = 0;
        for (const auto& lane : lanes) at = std::max(at, lane.now());
        const Dql& dql = lanes.front().dql();
        report.samples.push_back({at - config.warmup, total(lanes, Count::kSent) - sent,
                                  total(lanes, Count::kReceived) - received, dql.limit(), dql.inflight()});
    }
    report.latency.resize(Histogram::kBuckets);
    for (const auto& lane : lanes) {
        report.lanes.push_back(lane.report());
        report.carrier_lost = report.carrier_lost || lane.carrier_lost();
        for (std::size_t bucket = 0; bucket < Histogram::kBuckets; ++bucket) {
            report.latency[bucket] += lane.latency()[bucket];
        }
    }
    report.trace = lanes.front().trace();
    return report;
}

}  // namespace

bool needs_everything(const Config& config) {
    return config.lanes > 1 || !config.sends || config.injects || config.when_full != WhenFull::kSpin ||
           config.gap > 0 || config.bql || config.arrival_gap > 0 || config.window > 0 ||
           config.call_ps > 0 || config.locked_stall > 0 || config.tx_moderation.kind == Moderation::kHoldOff;
}

Report simulate(const Config& config) {
    check(config);
    return needs_everything(config) ? run<true>(config) : run<false>(config);
}

}  // namespace labkit::sim
