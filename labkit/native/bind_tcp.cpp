#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include "bind_all.h"
#include "tcp_stream.h"

namespace nb = nanobind;

namespace labkit {
namespace {

void bind_config(nb::module_& m) {
    nb::class_<StreamConfig>(m, "StreamConfig", "What a stream between two connected sockets is asked.")
        .def(
            "__init__",
            [](StreamConfig* made, int send_fd, int receive_fd, std::size_t message_bytes,
               std::optional<std::uint64_t> count, std::optional<std::int64_t> duration_ns,
               std::optional<int> send_cpu, std::optional<int> receive_cpu, std::int64_t interval_ns,
               std::size_t most_intervals) {
                new (made) StreamConfig{send_fd,  receive_fd,  message_bytes, count,          duration_ns,
                                        send_cpu, receive_cpu, interval_ns,   most_intervals, kStreamDrainNs};
            },
            nb::kw_only(), nb::arg("send_fd"), nb::arg("receive_fd"), nb::arg("message_bytes"),
            nb::arg("count") = nb::none(), nb::arg("duration_ns") = nb::none(),
            nb::arg("send_cpu") = nb::none(), nb::arg("receive_cpu") = nb::none(), nb::arg("interval_ns"),
            nb::arg("most_intervals"));
}

void bind_report(nb::module_& m) {
    nb::class_<TcpFacts>(m, "TcpFacts", "What the kernel tells of a connection in the end.")
        .def_ro("retransmits", &TcpFacts::retransmits)
        .def_ro("rtt_us", &TcpFacts::rtt_us)
        .def_ro("cwnd_segments", &TcpFacts::cwnd_segments)
        .def_ro("mss_bytes", &TcpFacts::mss_bytes)
        .def_ro("data_segments", &TcpFacts::data_segments);
    nb::class_<StreamReport>(m, "StreamReport", "What a stream did; times are CLOCK_MONOTONIC.")
        .def_ro("bytes_sent", &StreamReport::bytes_sent)
        .def_ro("bytes_received", &StreamReport::bytes_received)
        .def_ro("writes", &StreamReport::writes)
        .def_ro("short_writes", &StreamReport::short_writes)
        .def_ro("waits", &StreamReport::waits)
        .def_ro("start_ns", &StreamReport::start_ns)
        .def_ro("written_ns", &StreamReport::written_ns)
        .def_ro("end_ns", &StreamReport::end_ns)
        .def_ro("send_cpu_ns", &StreamReport::send_cpu_ns)
        .def_ro("receive_cpu_ns", &StreamReport::receive_cpu_ns)
        .def_ro("involuntary_switches", &StreamReport::involuntary_switches)
        .def_ro("drained", &StreamReport::drained)
        .def_ro("send_errno", &StreamReport::send_errno)
        .def_ro("receive_errno", &StreamReport::receive_errno)
        .def_ro("tcp", &StreamReport::tcp)
        .def_ro("intervals", &StreamReport::intervals)
        .def_prop_ro("ended_by", [](const StreamReport& report) { return word(report.ended_by); });
}

}  // namespace

void bind_tcp(nb::module_& m) {
    bind_config(m);
    bind_report(m);
    m.attr("MOST_MESSAGE_BYTES") = kMostMessageBytes;
    m.def("tcp_stream", &tcp_stream, nb::arg("config"), nb::arg("stop"),
          nb::call_guard<nb::gil_scoped_release>(),
          "Write from this thread and read on another, until count, duration, stop or an error.");
}

}  // namespace labkit
