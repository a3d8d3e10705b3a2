#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind_all.h"
#include "microcosts.h"

namespace nb = nanobind;

namespace labkit {

void bind_microcosts(nb::module_& m) {
    m.attr("OPERATIONS_PER_TURN") = kOperationsPerTurn;
    nb::class_<Microcost>(m, "Microcost", "One operation whose cost can be timed.")
        .def_ro("name", &Microcost::name)
        .def_ro("how", &Microcost::how)
        .def_ro("source", &Microcost::source);
    nb::class_<MicrocostBlock>(m, "MicrocostBlock", "One operation many times, timed as a whole.")
        .def_ro("elapsed_ns", &MicrocostBlock::elapsed_ns)
        .def_ro("done", &MicrocostBlock::done)
        .def_ro("involuntary_switches", &MicrocostBlock::involuntary_switches);
    m.def("microcosts", &microcosts, "The operations that `microcost_block` takes.");
    m.def("shared_line", &shared_line, "What `shared_line_block` does.");
    m.def("microcost_block", &microcost_block, nb::arg("name"), nb::arg("count"), nb::arg("cpu"),
          nb::call_guard<nb::gil_scoped_release>(), "`count` operations on one CPU.");
    m.def("shared_line_block", &shared_line_block, nb::arg("count"), nb::arg("cpu"), nb::arg("other_cpu"),
          nb::arg("within_ns"), nb::call_guard<nb::gil_scoped_release>(),
          "`count` transfers of a cache line between two CPUs, or fewer when the time runs out.");
}

}  // namespace labkit
