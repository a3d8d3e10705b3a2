#include <cstdint>
#include <limits>
#include <stdexcept>

#include "harness.h"
#include "histogram.h"
#include "sim_config.h"
#include "sim_dql.h"
#include "sim_moderation.h"
#include "sim_tx_ring.h"

using labkit::Histogram;
using namespace labkit::sim;

// Every number of these sequences was worked out by hand from lib/dynamic_queue_limits.c (3.15).
CASE(byte_queue_limit_grows_from_zero_while_the_queue_starves) {
    Dql dql(0, 1'879'048'192, 1'000'000);
    EQUAL(dql.limit(), 0U);
    CLAIM(dql.has_room());
    EQUAL(dql.room(60), 1U);
    dql.queued(1, 60);
    CLAIM(!dql.has_room());
    dql.completed(60, 1);  // 60 B over the limit and nothing left: starved
    EQUAL(dql.limit(), 60U);
    EQUAL(dql.room(60), 2U);
    dql.queued(2, 60);
    CLAIM(!dql.has_room());
    dql.completed(120, 2);
    EQUAL(dql.limit(), 180U);
    EQUAL(dql.room(60), 4U);
}

CASE(bytes_in_flight_are_those_queued_and_not_yet_completed) {
    Dql dql(0, 1'879'048'192, 1'000'000);
    EQUAL(dql.inflight(), 0U);
    dql.queued(3, 1'514);
    EQUAL(dql.inflight(), 4'542U);
    dql.completed(1'514, 1);
    EQUAL(dql.inflight(), 3'028U);
    dql.queued(1, 60);
    dql.completed(3'088, 2);
    EQUAL(dql.inflight(), 0U);
}

CASE(byte_queue_limit_grows_by_what_was_over_it_one_interval_before) {
    Dql dql(180, 1'879'048'192, 1'000'000);
    dql.queued(1, 60);
    dql.completed(60, 1);  // the least limit takes hold
    EQUAL(dql.limit(), 180U);
    dql.queued(4, 60);     // 60 B beyond
    dql.completed(60, 2);  // 180 B still in progress: not starved yet
    EQUAL(dql.limit(), 180U);
    EQUAL(dql.room(60), 1U);
    dql.queued(1, 60);
    dql.completed(180, 3);  // all of the interval before, which was over the limit
    EQUAL(dql.limit(), 240U);
}

CASE(byte_queue_limit_loses_its_slack_after_the_hold_time) {
    Dql dql(0, 1'879'048'192, 10);
    dql.queued(20, 60);
    dql.completed(1'200, 0);
    EQUAL(dql.limit(), 1'200U);
    dql.queued(20, 60);
    dql.completed(60, 1);  // the interval before was idle: says nothing
    dql.queued(1, 60);
    dql.completed(60, 2);  // slack 1200 - 2 x 60
    dql.queued(1, 60);
    dql.completed(120, 10);  // slack 1200 - 2 x 120; the hold time is not over
    EQUAL(dql.limit(), 1'200U);
    dql.queued(1, 60);
    dql.completed(60, 11);  // slack 1080 again: the least of all counts
    EQUAL(dql.limit(), 240U);
}

CASE(byte_queue_limit_keeps_what_the_last_object_did_not_need_out) {
    Dql dql(0, 1'879'048'192, 10);
    dql.queued(2, 1'500);
    dql.completed(3'000, 0);
    EQUAL(dql.limit(), 3'000U);
    dql.queued(1, 1'600);
    dql.queued(1, 1'500);  // 100 B over the limit, by an object of 1500
    dql.completed(1'600, 1);
    dql.queued(2, 1'500);
    dql.completed(1'400, 11);  // slack 3100 - 2 x 1400 = 300, but 1500 - 100 of the last object is more
    EQUAL(dql.limit(), 1'600U);
}

CASE(byte_queue_limit_keeps_its_bounds_the_upper_one_before_the_lower) {
    Dql between(100, 150, 10);
    between.queued(100, 60);
    between.completed(6'000, 1);
    EQUAL(between.limit(), 150U);
    Dql crossed(500, 300, 10);
    crossed.queued(1, 60);
    crossed.completed(60, 1);
    EQUAL(crossed.limit(), 300U);
}

CASE(dynamic_mode_rests_at_61_steps_under_a_flood) {
    DynamicItr dynamic;
    EQUAL(dynamic.itr(), 200U);
    for (int poll = 0; poll < 200; ++poll) dynamic.polled({491, 491 * 60}, {});
    EQUAL(dynamic.itr(), 490U);
    EQUAL(dynamic.period(), 124'928'000);
}

CASE(dynamic_mode_takes_the_slower_direction) {
    DynamicItr idle, low, mixed;
    for (int poll = 0; poll < 200; ++poll) {
        idle.polled({1, 60}, {1, 60});
        low.polled({10, 750}, {});
        mixed.polled({1, 60}, {491, 491 * 60});
    }
    EQUAL(idle.period(), 5 * 2'048'000);
    EQUAL(low.period(), 25 * 2'048'000);
    EQUAL(mixed.period(), 61 * 2'048'000);
}

CASE(hold_off_fires_at_so_many_events_or_so_long_after_the_first) {
    const Moderator timed({Moderation::kHoldOff, 100, 0}), both({Moderation::kHoldOff, 100, 4});
    EQUAL(timed.fires_at(1'000, kNever), 1'100);
    EQUAL(both.fires_at(1'000, 1'030), 1'030);
    EQUAL(both.fires_at(1'000, kNever), 1'100);  // fewer than four are on their way
    EQUAL(both.fires_at(kNever, kNever), kNever);
}

CASE(lost_interrupt_is_tried_again_a_period_later_and_never_at_once) {
    for (const Moderation kind : {Moderation::kInterval, Moderation::kHoldOff}) {
        Moderator slow({kind, 100, 0}), free({kind, 0, 0});
        slow.lost(1'000, 67);
        EQUAL(slow.fires_at(900, kNever), 1'100);
        free.lost(1'000, 67);
        EQUAL(free.fires_at(900, kNever), 1'067);
    }
}

CASE(card_writes_back_whole_batches_and_flushes_at_the_interrupt) {
    Config config;
    config.write_back = 4;
    TxRing ring(config);
    for (Ps done = 10; done <= 60; done += 10) ring.post(done);
    CLAIM(!ring.finished(39));
    CLAIM(ring.finished(40));
    for (const Ps done : {10, 20, 30, 40}) {
        CLAIM(ring.finished(40));
        EQUAL(ring.take(), done);
    }
    CLAIM(!ring.finished(1'000));
    ring.flush(50);
    CLAIM(ring.finished(50));
    EQUAL(ring.take(), 50);
    CLAIM(!ring.finished(1'000));
    EQUAL(ring.waiting(59), 1U);
    EQUAL(ring.waiting(60), 0U);
}

CASE(histogram_bucket_holds_its_values_and_is_a_sixteenth_wide) {
    for (std::uint64_t value = 0; value < 16; ++value)
        EQUAL(Histogram::floor(Histogram::bucket(value)), value);
    for (std::uint64_t value = 16; value < (std::uint64_t{1} << 62); value += value / 7) {
        const std::size_t bucket = Histogram::bucket(value);
        const std::uint64_t low = Histogram::floor(bucket), next = Histogram::floor(bucket + 1);
        CLAIM(low <= value && value < next);
        CLAIM(16 * (next - low) <= low);
    }
    EQUAL(Histogram::bucket(std::numeric_limits<std::uint64_t>::max()), Histogram::kBuckets - 1);
    for (std::size_t bucket = 0; bucket < Histogram::kBuckets; ++bucket) {
        EQUAL(Histogram::bucket(Histogram::floor(bucket)), bucket);
    }
    THROWS(std::out_of_range, Histogram::floor(Histogram::kBuckets));
}
