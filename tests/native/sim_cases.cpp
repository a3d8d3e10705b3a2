#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "allocations.h"
#include "harness.h"
#include "sim_config.h"

using namespace labkit::sim;

namespace {

constexpr Ps kUs = 1'000'000;

// The published machine of the v1-followup table at TX ring 512, rx-usecs 30.
Config machine() {
    Config config;
    config.duration = 10'000 * kUs;
    config.packet = 54'900;
    config.burst_ps = 15'000;
    config.doorbell = 52'700;
    config.clean = 14'000;
    config.interrupt = 876'000;
    config.repoll = 150'000;
    config.cache_miss = 27'600;
    config.tx_moderation.period = 30'720'000;
    return config;
}

// As much switched on as fits together, in four lanes.
Config everything() {
    Config config = machine();
    config.lanes = 4;
    config.when_full = WhenFull::kQueue;
    config.queue_limit = 100;
    config.bql = config.bql_stops = true;
    config.shared_line = 20'000;
    config.call_ps = 100'000;
    config.batch = 16;
    config.arrival_gap = 700'000;
    config.poisson = true;
    config.receive = 150'000;
    config.samples = 10;
    config.trace = 100;
    return config;
}

std::uint64_t total(const Report& report, Count what) {
    std::uint64_t sum = 0;
    for (const LaneReport& lane : report.lanes) sum += lane.counts[static_cast<std::size_t>(what)];
    return sum;
}

}  // namespace

CASE(samples_tell_the_byte_queue_limit_and_what_is_in_flight_of_the_first_lane) {
    Config config = machine();
    config.tx_ring = 512;
    config.frame_bytes = 1'514;
    config.wire = 1'230'400;
    config.when_full = WhenFull::kQueue;
    config.queue_limit = 1'000;
    config.bql = config.bql_stops = true;
    config.bql_max = 40'000;
    config.samples = 8;
    const Report report = simulate(config);
    EQUAL(report.samples.size(), 8U);
    for (const Sample& sample : report.samples) {
        EQUAL(sample.bql_limit, 40'000U);
        // the frame that goes beyond the limit is still taken, and none behind it
        CLAIM(sample.bql_inflight > 0 && sample.bql_inflight < 40'000 + 1'514);
        EQUAL(sample.bql_inflight % 1'514, 0U);
    }
    config.bql = false;
    for (const Sample& sample : simulate(config).samples) EQUAL(sample.bql_limit + sample.bql_inflight, 0U);
}

CASE(ring_holds_all_but_21_and_sends_them_once_a_period) {
    for (const std::uint32_t size : {64U, 100U, 256U}) {
        for (const std::uint32_t burst : {1U, 7U, 5'000U}) {
            Config config = machine();
            config.tx_ring = size;
            config.burst = burst;
            config.packet = 1'000;
            config.warmup = 100 * kUs;
            config.trace = 1'000;
            const Report report = simulate(config);
            EQUAL(report.lanes[0].most_in_flight, size - 21);
            for (const TracePoint& point : report.trace) CLAIM(point.waiting + point.uncleaned <= size - 21);
            if (size < 256) {
                const double periods = static_cast<double>(config.duration) / 30'720'000;
                const auto sent = static_cast<double>(total(report, Count::kSent));
                CLAIM(sent > (size - 21) * (periods - 1) && sent < (size - 21) * (periods + 1));
            }
        }
    }
}

CASE(config_of_no_card_is_refused) {
    const std::vector<void (*)(Config&)> mistakes{
        [](Config& config) { config.duration = 0; },
        [](Config& config) { config.duration = kNever; },
        [](Config& config) { config.warmup = -1; },
        [](Config& config) { config.lanes = 0; },
        [](Config& config) { config.lanes = 1'025; },
        [](Config& config) { config.lanes = 1'000, config.tx_ring = 1U << 20; },
        [](Config& config) { config.samples = 1U << 21; },
        [](Config& config) { config.trace = 1U << 21; },
        [](Config& config) { config.carrier_lost_at = -1; },
        [](Config& config) { config.tx_ring = 42; },
        [](Config& config) { config.tx_ring = std::numeric_limits<std::uint32_t>::max(); },
        [](Config& config) { config.rx_ring = 0; },
        [](Config& config) { config.stop_descriptors = 0; },
        [](Config& config) { config.stop_descriptors = 43; },
        [](Config& config) { config.wire = 0; },
        [](Config& config) { config.wire = kNever; },
        [](Config& config) { config.fetch = kNever; },
        [](Config& config) { config.frame_bytes = 0; },
        [](Config& config) { config.write_back = 0; },
        [](Config& config) { config.clean_limit = 0; },
        [](Config& config) { config.rx_budget = 0; },
        [](Config& config) { config.burst = 0; },
        [](Config& config) { config.batch = 0; },
        [](Config& config) { config.packet = 0; },
        [](Config& config) { config.packet = -1; },
        [](Config& config) { config.clean = 1'000'000'000'001; },
        [](Config& config) { config.when_full = WhenFull::kQueue; },
        [](Config& config) { config.bql_hold = kNever; },
        [](Config& config) { config.arrival_gap = 1; },
        [](Config& config) { config.window = 1; },
        [](Config& config) { config.window = 8, config.ack_every = 0; },
        [](Config& config) { config.window = 8, config.receive = 1, config.arrival_gap = 1; },
        [](Config& config) { config.window = (1U << 20) + 1; },
    };
    for (const auto mistake : mistakes) {
        Config config = machine();
        mistake(config);
        THROWS(std::invalid_argument, simulate(config));
    }
}

CASE(same_seed_gives_the_same_run_and_another_one_another) {
    Config config = everything();
    const Report one = simulate(config), again = simulate(config);
    for (std::size_t lane = 0; lane < one.lanes.size(); ++lane) {
        CLAIM(one.lanes[lane].counts == again.lanes[lane].counts);
        EQUAL(one.lanes[lane].waiting_ps, again.lanes[lane].waiting_ps);
    }
    CLAIM(one.latency == again.latency);
    config.seed = 2;
    CLAIM(simulate(config).latency != one.latency);
}

CASE(memory_does_not_depend_on_the_packets) {
    for (const Config& asked : {machine(), everything()}) {
        Config config = asked;
        std::uint64_t few = 0, many = 0;
        config.duration = 1'000 * kUs;
        const std::size_t wanted = allocations::of([&] { few = total(simulate(config), Count::kSent); });
        config.duration = 100'000 * kUs;
        EQUAL(allocations::of([&] { many = total(simulate(config), Count::kSent); }), wanted);
        CLAIM(many > 50 * few);
        CLAIM(wanted > 0);
    }
}

CASE(largest_values_end_without_an_overflow) {
    constexpr std::uint32_t kAll = std::numeric_limits<std::uint32_t>::max();
    Config config = everything();
    config.duration = config.warmup = config.bql_hold = 360'000'000'000'000'000;
    config.tx_ring = config.rx_ring = config.rx_budget = config.frame_bytes = 1U << 20;
    config.wire = 2'000'000'000;
    config.clean_limit = config.write_back = config.burst = config.batch = config.queue_limit = kAll;
    config.bql_min = config.bql_max = config.cached = config.small_queue = config.ack_every = kAll;
    for (Ps* cost :
         {&config.fetch, &config.packet, &config.burst_ps, &config.call_ps, &config.doorbell, &config.clean,
          &config.interrupt, &config.repoll, &config.cache_miss, &config.shared_line, &config.locked_stall,
          &config.gap, &config.arrival_gap, &config.receive, &config.ack_delay, &config.tx_moderation.period,
          &config.rx_moderation.period}) {
        *cost = 1'000'000'000'000;
    }
    config.tx_moderation.frames = config.rx_moderation.frames = kAll;
    for (const Moderation kind : {Moderation::kInterval, Moderation::kDynamic, Moderation::kHoldOff}) {
        config.tx_moderation.kind = config.rx_moderation.kind = kind;
        CLAIM(total(simulate(config), Count::kReceived) > 0);
    }
    // a CPU that receives for ever sends nothing
    config.gap = config.arrival_gap = config.warmup = 0;
    CLAIM(total(simulate(config), Count::kSent) > 0);
    config.window = config.ack_every = 1U << 20;
    CLAIM(total(simulate(config), Count::kSent) > 0);
}
