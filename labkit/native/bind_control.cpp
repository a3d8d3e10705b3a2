#include <nanobind/stl/optional.h>

#include "bind_all.h"
#include "clock.h"
#include "progress.h"
#include "stop_flag.h"

namespace nb = nanobind;

namespace labkit {

void bind_control(nb::module_& m) {
    m.def("monotonic_ns", &monotonic_ns, "CLOCK_MONOTONIC in nanoseconds.");
    nb::class_<StopFlag>(m, "StopFlag", "Ends a running engine within 10 ms; set from any thread.")
        .def(nb::init<>())
        .def("set", &StopFlag::set, "Ask the engine to end.")
        .def("is_set", &StopFlag::is_set, "Whether the end was asked for.");
    nb::class_<Progress>(m, "Progress", "Counts of a running engine, readable from any thread.")
        .def(nb::init<>())
        .def("store", &Progress::store, nb::arg("sent"), nb::arg("refused"),
             "Called by the engine once a batch.")
        .def("pace", &Progress::pace, nb::arg("start_ns"), nb::arg("frame_ns"),
             "Called once, before the first call of a paced run.")
        .def_prop_ro("start_ns", &Progress::start_ns,
                     "CLOCK_MONOTONIC at which frame 0 of a paced run is due; None before and of other runs.")
        .def_prop_ro("frame_ns", &Progress::frame_ns, "Nanoseconds by which each frame is due later.")
        .def_prop_ro("sent", &Progress::sent, "Frames sent since the run began.")
        .def_prop_ro("refused", &Progress::refused, "Frames refused since the run began.");
}

}  // namespace labkit
