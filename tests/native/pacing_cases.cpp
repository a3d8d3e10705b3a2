#include <limits>

#include "fakes.h"
#include "harness.h"

using labkit::EndedBy;
using labkit::Pacer;

namespace {

labkit::TxConfig paced(double rate_pps, double duration_s, std::uint32_t batch) {
    labkit::TxConfig config = asked_for(batch, std::nullopt);
    config.rate_pps = rate_pps;
    config.duration_ns = static_cast<std::int64_t>(duration_s * 1e9);
    return config;
}

}  // namespace

CASE(fractional_rates_come_out_right_at_any_batch) {
    for (const std::uint32_t batch : {1U, 64U, 1024U}) {
        Bench slow;
        const std::uint64_t frames = slow.run(paced(10.5, 10, batch), 3).sent;
        CLAIM(frames >= 104 && frames <= 106);
        CLAIM(slow.report.ended_by == EndedBy::kDuration);
        Bench slower;
        EQUAL(slower.run(paced(0.5, 4, batch), 3).sent, 2U);
    }
}

CASE(high_rates_keep_the_batch_and_the_rate) {
    Bench bench;
    const labkit::TxReport& report = bench.run(paced(150'000, 1, 64), 3);
    CLAIM(report.sent >= 149'900 && report.sent <= 150'100);
    EQUAL(bench.kernel.asked.front(), 64U);
}

CASE(batch_holds_a_millisecond_of_the_rate_at_most) {
    EQUAL(Pacer(0.5, 0, 64).burst(), 1U);
    EQUAL(Pacer(50'000, 0, 64).burst(), 50U);
    EQUAL(Pacer(1e9, 0, 64).burst(), 64U);
}

CASE(slower_frames_leave_one_by_one) {
    EQUAL(Pacer(49'999, 0, 64).burst(), 1U);
    EQUAL(Pacer(10'000, 0, 64, false).burst(), 10U);
    Bench bench;
    const labkit::TxReport& report = bench.run(paced(20'000, 1, 64), 3);
    EQUAL(report.calls, 20'000U);
    EQUAL(report.burst_frames, 1U);
}

CASE(run_of_a_duration_sends_the_rates_count_exactly) {
    for (const double rate_pps : {1'000.0, 20'000.0, 50'000.0, 200'000.0, 250'000.0}) {
        for (const std::uint32_t batch : {1U, 64U, 1000U}) {
            Bench bench;
            bench.kernel.frame_ns = 500;
            const labkit::TxReport& report = bench.run(paced(rate_pps, 1, batch), 3);
            EQUAL(report.sent, static_cast<std::uint64_t>(rate_pps));
            CLAIM(report.end_ns - report.start_ns <= 1'000'001'000);
        }
    }
}

CASE(gaps_are_those_between_the_starts_of_calls) {
    Bench bench;
    const labkit::TxReport& report = bench.run(paced(1'000, 1, 64), 3);
    const std::vector<std::uint64_t>& counts = report.gaps.counts();
    std::uint64_t calls = 0;
    for (const std::uint64_t count : counts) calls += count;
    EQUAL(calls, 999U);
    // a turn of the waiting loop is 1 us
    const std::size_t due = labkit::Histogram::bucket(1'000'000);
    EQUAL(counts[due - 1] + counts[due] + counts[due + 1], 999U);
    Bench batches;
    EQUAL(batches.run(paced(200'000, 1, 64), 3).burst_frames, 64U);
    Bench unpaced;
    CLAIM(!unpaced.run(asked_for(64, 100), 3).paced);
}

CASE(refused_frames_are_no_burst) {
    Bench bench;
    bench.kernel.bad = {{0, EMSGSIZE}};
    EQUAL(bench.run(paced(100, 1, 8), 1).burst_frames, 0U);
}

CASE(progress_tells_when_frames_are_due_before_the_first_call) {
    Bench bench;
    bench.kernel.fails = [&](std::uint64_t) {
        EQUAL(bench.progress.start_ns().value(), 1'000'000'000);
        EQUAL(bench.progress.frame_ns().value(), 5'000.0);
        return 0;
    };
    EQUAL(bench.run(paced(200'000, 0.01, 64), 3).sent, 2'000U);
    Bench unpaced;
    unpaced.run(asked_for(64, 100), 3);
    CLAIM(!unpaced.progress.start_ns() && !unpaced.progress.frame_ns());
}

CASE(late_sender_catches_up_with_the_bucket_only) {
    Pacer pacer(100'000, 0, 1);
    pacer.took(1, 1'000'000'000);  // a second late
    EQUAL(pacer.due_ns(), 990'000'000);
    pacer.took(1, 1'000'000'001);
    EQUAL(pacer.due_ns(), 990'010'000);
}

CASE(short_delay_is_made_up_for_whole) {
    Pacer pacer(1'000, 0, 1);
    pacer.took(1, 5'000'000);
    EQUAL(pacer.due_ns(), 1'000'000);
}

CASE(long_gap_looks_at_the_stop_flag_every_five_ms) {
    Bench bench;
    bench.clock.on_time = [&](std::int64_t now) {
        if (now >= 3'000'000'000) bench.stop.set();
    };
    const labkit::TxReport& report = bench.run(paced(0.01, 1'000, 64), 3);
    CLAIM(report.ended_by == EndedBy::kStop);
    EQUAL(report.sent, 1U);
    CLAIM(bench.clock.ns <= 3'000'000'000 + labkit::kLookNs);
    CLAIM(bench.clock.longest_sleep_ns <= labkit::kLookNs);
}

CASE(paced_run_lasts_its_duration_to_its_end) {
    Bench bench;
    const labkit::TxReport& report = bench.run(paced(1, 2.5, 1), 3);
    EQUAL(report.sent, 3U);
    EQUAL(bench.clock.ns, report.start_ns + 2'500'000'000);
    EQUAL(report.end_ns, report.start_ns + 2'500'000'000);
}

CASE(refused_frames_use_their_turn) {
    Bench bench;
    bench.kernel.bad = {{0, EMSGSIZE}};
    const labkit::TxReport& report = bench.run(paced(100, 1, 8), 2);
    EQUAL(report.sent, 50U);
    EQUAL(report.refused, 50U);
}

CASE(rate_that_is_no_rate_is_refused) {
    THROWS(std::invalid_argument, Pacer(0, 0, 1));
    THROWS(std::invalid_argument, Pacer(-1, 0, 1));
    THROWS(std::invalid_argument, Pacer(std::numeric_limits<double>::quiet_NaN(), 0, 1));
    THROWS(std::invalid_argument, Pacer(std::numeric_limits<double>::infinity(), 0, 1));
}

CASE(paced_run_lasts_as_many_slots_as_it_has_frames) {
    for (const double duration_s : {1.0, 100.0}) {
        Bench bench;
        labkit::TxConfig config = paced(10, duration_s, 64);
        if (duration_s > 1) config.count = 10;
        const labkit::TxReport& report = bench.run(config, 3);
        EQUAL(report.sent, 10U);
        const std::int64_t elapsed_ns = report.end_ns - report.start_ns;
        CLAIM(elapsed_ns >= 1'000'000'000 && elapsed_ns < 1'000'100'000);
        CLAIM(report.ended_by == (duration_s > 1 ? EndedBy::kCount : EndedBy::kDuration));
    }
}

CASE(stop_cuts_the_last_slot_short) {
    Bench bench;
    bench.clock.on_time = [&](std::int64_t now) {
        if (now >= 1'300'000'000) bench.stop.set();
    };
    labkit::TxConfig config = asked_for(1, 1);
    config.rate_pps = 1;
    const labkit::TxReport& report = bench.run(config, 1);
    EQUAL(report.sent, 1U);
    CLAIM(report.end_ns - report.start_ns < 310'000'000);
}

CASE(rate_too_slow_for_any_clock_is_due_far_off_and_no_overflow) {
    for (const double rate_pps : {1e-300, std::numeric_limits<double>::denorm_min()}) {
        Pacer pacer(rate_pps, 7, 64);
        EQUAL(pacer.burst(), 1U);
        pacer.took(1, 100);
        EQUAL(pacer.due_ns(), 1'000'000'000'000'000'007);
    }
}

CASE(duration_beyond_the_clock_is_no_deadline) {
    Bench bench;
    labkit::TxConfig config = asked_for(4, 10);
    config.duration_ns = std::numeric_limits<std::int64_t>::max();
    EQUAL(bench.run(config, 3).sent, 10U);
    CLAIM(bench.report.ended_by == EndedBy::kCount);
}
