#include "bind_all.h"

NB_MODULE(_native, m) {
    m.doc() = "Native fast path of labkit: frame tables, send loops and the simulated NIC.";
    labkit::bind_errors(m);
    labkit::bind_control(m);
    labkit::bind_frame_table(m);
    labkit::bind_engines(m);
    labkit::bind_microcosts(m);
    labkit::bind_sim(m);
    labkit::bind_sinks(m);
    labkit::bind_tcp(m);
}
