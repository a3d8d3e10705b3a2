// A clock and a kernel that do what a test tells them.
#pragma once

#include <cerrno>
#include <functional>
#include <map>
#include <vector>

#include "tx_loop.h"

struct FakeClock {
    static constexpr std::int64_t kDateNs = 1'700'000'000'000'000'000;
    std::int64_t ns = 1'000'000'000;
    std::int64_t longest_sleep_ns = 0;
    std::function<void(std::int64_t)> on_time = [](std::int64_t) {};

    std::int64_t now_ns() const { return ns; }
    std::int64_t date_ns() const { return kDateNs + ns; }  // starts at kDateNs + 1 s
    void sleep_until(std::int64_t deadline_ns) {
        longest_sleep_ns = std::max(longest_sleep_ns, deadline_ns - ns);
        pass(deadline_ns - ns);
    }
    void spin() { pass(1'000); }
    void pass(std::int64_t by_ns) {
        ns += by_ns;
        on_time(ns);
    }
};

// Takes frames as sendmmsg() does: up to the first bad one, whose errno shows only in a call of its own.
struct FakeKernel {
    explicit FakeKernel(FakeClock& its_clock) : clock(its_clock) {}

    FakeClock& clock;
    std::int64_t frame_ns = 1'000;
    std::map<std::size_t, int> bad;                                             // errno by place in the table
    std::function<int(std::uint64_t)> fails = [](std::uint64_t) { return 0; };  // errno by number of the call
    std::size_t table_frames = 1;
    std::uint64_t calls = 0;
    std::vector<std::uint32_t> asked;
    std::vector<std::size_t> taken;

    labkit::Taken call(std::size_t first, std::uint32_t frames) {
        asked.push_back(frames);
        if (const int error = fails(calls++)) return {1, error};
        std::uint32_t done = 0;
        for (; done < frames; ++done) {
            const std::size_t place = (first + done) % table_frames;
            clock.pass(frame_ns);
            if (const auto found = bad.find(place); found != bad.end()) {
                return done > 0 ? labkit::Taken{done, 0} : labkit::Taken{1, found->second};
            }
            taken.push_back(place);
        }
        return {done, 0};
    }
};

struct Bench {
    FakeClock clock;
    FakeKernel kernel{clock};
    labkit::StopFlag stop;
    labkit::Progress progress;
    labkit::TxReport report;

    const labkit::TxReport& run(const labkit::TxConfig& config, std::size_t table_frames) {
        kernel.table_frames = table_frames;
        labkit::TxLoop<FakeKernel, FakeClock>(kernel, clock, table_frames, config, stop, progress, report)
            .run();
        return report;
    }
};

inline labkit::TxConfig asked_for(std::uint32_t batch, std::optional<std::uint64_t> count) {
    labkit::TxConfig config;
    config.batch = batch;
    config.count = count;
    return config;
}
