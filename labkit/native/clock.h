// Clocks of the send path.
#pragma once

#include <cstdint>

namespace labkit {

// CLOCK_MONOTONIC in nanoseconds.
std::int64_t monotonic_ns();

// CPU time of the calling thread in nanoseconds (CLOCK_THREAD_CPUTIME_ID).
std::int64_t thread_cpu_ns();

}  // namespace labkit
