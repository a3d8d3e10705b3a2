// Clocks of the send path, and what the calling thread has cost.
#pragma once

#include <cstdint>

namespace labkit {

// CLOCK_MONOTONIC in nanoseconds.
std::int64_t monotonic_ns();

// CLOCK_REALTIME in nanoseconds since 1970.
std::int64_t realtime_ns();

// CPU time of the calling thread in nanoseconds (CLOCK_THREAD_CPUTIME_ID).
std::int64_t thread_cpu_ns();

// How often the calling thread lost its CPU against its will (getrusage, RUSAGE_THREAD).
std::int64_t involuntary_switches();

// Sleeps until CLOCK_MONOTONIC reads deadline_ns, or a signal comes.
void sleep_until_ns(std::int64_t deadline_ns);

// A turn of a waiting loop that leaves the core to its sibling.
inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

// The clock that a loop runs by; tests hand it one of their own.
struct SystemClock {
    std::int64_t now_ns() const { return monotonic_ns(); }
    std::int64_t date_ns() const { return realtime_ns(); }
    void sleep_until(std::int64_t deadline_ns) const { sleep_until_ns(deadline_ns); }
    void spin() const { relax(); }
};

}  // namespace labkit
