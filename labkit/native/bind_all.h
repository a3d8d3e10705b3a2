// The bindings, one function a subject; module.cpp calls them all.
#pragma once

#include <nanobind/nanobind.h>

namespace labkit {

void bind_errors(nanobind::module_& m);
void bind_control(nanobind::module_& m);
void bind_frame_table(nanobind::module_& m);
void bind_engines(nanobind::module_& m);
void bind_microcosts(nanobind::module_& m);
void bind_sim(nanobind::module_& m);
void bind_sinks(nanobind::module_& m);
void bind_tcp(nanobind::module_& m);

}  // namespace labkit
