#include <nanobind/nanobind.h>

#include "clock.h"

NB_MODULE(_native, m) { m.def("monotonic_ns", &labkit::monotonic_ns, "CLOCK_MONOTONIC in nanoseconds."); }
