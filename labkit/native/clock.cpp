#include "clock.h"

#include <sys/resource.h>

#include <ctime>

namespace labkit {
namespace {

constexpr std::int64_t kNsPerS = 1'000'000'000;

std::int64_t read_ns(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<std::int64_t>(now.tv_sec) * kNsPerS + now.tv_nsec;
}

}  // namespace

std::int64_t monotonic_ns() { return read_ns(CLOCK_MONOTONIC); }

std::int64_t realtime_ns() { return read_ns(CLOCK_REALTIME); }

std::int64_t thread_cpu_ns() { return read_ns(CLOCK_THREAD_CPUTIME_ID); }

std::int64_t involuntary_switches() {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
}

void sleep_until_ns(std::int64_t deadline_ns) {
    timespec deadline{};
    deadline.tv_sec = static_cast<time_t>(deadline_ns / kNsPerS);
    deadline.tv_nsec = static_cast<long>(deadline_ns % kNsPerS);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, nullptr);
}

}  // namespace labkit
