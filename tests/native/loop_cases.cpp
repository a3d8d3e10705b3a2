#include <numeric>
#include <random>

#include "fakes.h"
#include "harness.h"

using labkit::EndedBy;

CASE(bad_frame_in_a_batch_is_refused_once_and_the_rest_goes_out_in_order) {
    Bench bench;
    bench.kernel.bad = {{10, EMSGSIZE}};
    const labkit::TxReport& report = bench.run(asked_for(64, 64), 64);
    EQUAL(report.sent, 63U);
    EQUAL(report.refused, 1U);
    EQUAL(report.refused_by_errno.at(EMSGSIZE), 1U);
    EQUAL(report.partial_returns, 1U);
    EQUAL(report.calls, 3U);
    std::vector<std::size_t> wanted(64);
    std::iota(wanted.begin(), wanted.end(), 0);
    wanted.erase(wanted.begin() + 10);
    CLAIM(bench.kernel.taken == wanted);
    CLAIM((bench.kernel.asked == std::vector<std::uint32_t>{64, 54, 53}));
}

CASE(last_batch_is_shortened_to_the_count) {
    Bench bench;
    EQUAL(bench.run(asked_for(64, 150), 3).sent, 150U);
    CLAIM((bench.kernel.asked == std::vector<std::uint32_t>{64, 64, 22}));
    CLAIM(bench.report.ended_by == EndedBy::kCount);
}

CASE(count_smaller_than_the_batch_is_one_call) {
    Bench bench;
    EQUAL(bench.run(asked_for(1024, 1), 5000).sent, 1U);
    CLAIM((bench.kernel.asked == std::vector<std::uint32_t>{1}));
}

CASE(count_of_nothing_makes_no_call) {
    Bench bench;
    EQUAL(bench.run(asked_for(64, 0), 4).calls, 0U);
    EQUAL(bench.report.end_ns - bench.report.start_ns, 0);
}

CASE(table_goes_round_where_the_last_batch_ended) {
    Bench bench;
    bench.run(asked_for(4, 10), 7);
    CLAIM((bench.kernel.taken == std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6, 0, 1, 2}));
}

CASE(interrupted_and_timed_out_calls_count_as_nothing) {
    Bench bench;
    bench.kernel.fails = [](std::uint64_t call) { return call == 0 ? EINTR : call == 2 ? EAGAIN : 0; };
    const labkit::TxReport& report = bench.run(asked_for(8, 16), 8);
    EQUAL(report.sent, 16U);
    EQUAL(report.refused, 0U);
    EQUAL(report.calls, 4U);
}

CASE(full_queue_is_neither_sent_nor_fatal) {
    Bench bench;
    bench.kernel.fails = [](std::uint64_t) { return ENOBUFS; };
    const labkit::TxReport& report = bench.run(asked_for(64, 100), 8);
    EQUAL(report.sent, 0U);
    EQUAL(report.refused_by_errno.at(ENOBUFS), 100U);
    CLAIM(!report.fatal_errno);
}

CASE(lost_device_ends_the_run_with_its_counts) {
    for (const int error : {ENETDOWN, ENXIO, ENODEV, EBADF, EPERM}) {
        Bench bench;
        bench.kernel.fails = [error](std::uint64_t call) { return call == 2 ? error : 0; };
        const labkit::TxReport& report = bench.run(asked_for(16, 1000), 16);
        EQUAL(report.sent, 32U);
        EQUAL(report.refused, 0U);
        EQUAL(report.fatal_errno.value(), error);
        CLAIM(report.ended_by == EndedBy::kError);
        EQUAL(bench.progress.sent(), 32U);
    }
}

CASE(duration_covers_first_to_last_call) {
    for (const std::uint32_t batch : {1U, 7U, 64U}) {
        Bench bench;
        labkit::TxConfig config = asked_for(batch, std::nullopt);
        config.duration_ns = 10'000'000;
        const labkit::TxReport& report = bench.run(config, 3);
        CLAIM(report.ended_by == EndedBy::kDuration);
        EQUAL(report.end_ns - report.start_ns,
              static_cast<std::int64_t>(report.sent) * bench.kernel.frame_ns);
        CLAIM(report.sent >= 10'000 && report.sent <= 10'000 + 64 + batch);
    }
}

CASE(stop_is_seen_within_one_look) {
    for (const std::uint32_t batch : {1U, 8U, 64U, 1024U}) {
        Bench bench;
        bench.clock.on_time = [&](std::int64_t now) {
            if (now >= 1'005'000'000) bench.stop.set();
        };
        const labkit::TxReport& report = bench.run(asked_for(batch, std::nullopt), 3);
        CLAIM(report.ended_by == EndedBy::kStop);
        CLAIM(report.sent <= 5'000 + std::max(batch, labkit::kLookFrames) + batch);
    }
}

CASE(stop_set_before_the_start_sends_nothing) {
    for (const bool paced : {false, true}) {
        Bench bench;
        bench.stop.set();
        labkit::TxConfig config = asked_for(8, 100);
        if (paced) config.rate_pps = 100;
        EQUAL(bench.run(config, 3).calls, 0U);
        CLAIM(bench.report.ended_by == EndedBy::kStop);
    }
}

CASE(blocked_socket_sees_the_stop_flag_at_each_time_out) {
    Bench bench;
    bench.kernel.fails = [&](std::uint64_t call) {
        bench.clock.pass(4'000'000);
        if (call == 3) bench.stop.set();
        return EAGAIN;
    };
    EQUAL(bench.run(asked_for(1, 100), 3).calls, 4U);
    CLAIM(bench.report.ended_by == EndedBy::kStop);
}

CASE(whatever_the_kernel_does_every_frame_is_attempted_once_and_in_order) {
    std::mt19937 random(20240229);
    for (int round = 0; round < 300; ++round) {
        Bench bench;
        const std::size_t frames = 1 + random() % 40;
        const auto batch = static_cast<std::uint32_t>(1 + random() % 70);
        const std::uint64_t count = random() % 500;
        for (std::size_t i = 0; i < frames; ++i) {
            if (random() % 5 == 0) bench.kernel.bad[i] = random() % 2 ? EMSGSIZE : EINVAL;
        }
        bench.kernel.fails = [&](std::uint64_t) { return random() % 6 == 0 ? EINTR : 0; };
        const labkit::TxReport& report = bench.run(asked_for(batch, count), frames);
        EQUAL(report.sent + report.refused, count);
        std::vector<std::size_t> wanted;
        for (std::uint64_t i = 0; i < count; ++i) {
            if (bench.kernel.bad.count(i % frames) == 0) wanted.push_back(i % frames);
        }
        EQUAL(report.sent, wanted.size());
        // the frame behind a short return is attempted twice; what was taken is in order and whole
        CLAIM(bench.kernel.taken == wanted);
        EQUAL(bench.progress.refused(), report.refused);
    }
}
