#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include "bind_all.h"
#include "tx.h"

namespace nb = nanobind;

namespace labkit {
namespace {

using Engine = TxReport (*)(const FrameTable&, const TxConfig&, const StopFlag&, Progress&);

using Gaps = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

// The buckets that hold something.
std::optional<Gaps> filled(const TxReport& report) {
    if (!report.paced) return std::nullopt;
    Gaps gaps;
    const std::vector<std::uint64_t>& counts = report.gaps.counts();
    for (std::size_t i = 0; i < counts.size(); ++i)
        if (counts[i] > 0) gaps.emplace_back(Histogram::floor(i), counts[i]);
    return gaps;
}

std::optional<std::uint32_t> burst(const TxReport& report) {
    return report.paced ? std::optional(report.burst_frames) : std::nullopt;
}

void bind_report(nb::module_& m) {
    nb::class_<TxReport>(m, "TxReport", "What an engine did; times are CLOCK_MONOTONIC.")
        .def_ro("sent", &TxReport::sent)
        .def_ro("refused", &TxReport::refused)
        .def_ro("refused_by_errno", &TxReport::refused_by_errno)
        .def_ro("super_packets", &TxReport::super_packets)
        .def_ro("partial_returns", &TxReport::partial_returns)
        .def_ro("calls", &TxReport::calls)
        .def_ro("start_ns", &TxReport::start_ns)
        .def_ro("end_ns", &TxReport::end_ns)
        .def_ro("cpu_ns", &TxReport::cpu_ns)
        .def_ro("involuntary_switches", &TxReport::involuntary_switches)
        .def_ro("qdisc_bypass", &TxReport::qdisc_bypass)
        .def_ro("zero_copy", &TxReport::zero_copy)
        .def_ro("fatal_errno", &TxReport::fatal_errno)
        .def_prop_ro("gaps", &filled, "Of a paced run: smallest nanoseconds of a bucket, and its calls.")
        .def_prop_ro("burst_frames", &burst)
        .def_prop_ro("ended_by", [](const TxReport& report) { return word(report.ended_by); });
}

void bind_config(nb::module_& m) {
    nb::class_<RingGeometry>(m, "RingGeometry", "The slots of tx_ring's ring, in whole blocks.")
        .def(nb::init<std::uint32_t, std::uint32_t, std::uint32_t>(), nb::kw_only(), nb::arg("slots"),
             nb::arg("slot_bytes"), nb::arg("block_bytes"));
    nb::class_<XskGeometry>(m, "XskGeometry", "The ring of an AF_XDP socket, and its memory.")
        .def(nb::init<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint64_t>(),
             nb::kw_only(), nb::arg("ring_frames"), nb::arg("slots"), nb::arg("slot_bytes"),
             nb::arg("chunk_bytes"), nb::arg("memory_bytes"));
    nb::class_<TxConfig>(m, "TxConfig", "What an engine is asked.")
        .def(nb::init<int, std::uint32_t, std::optional<std::uint64_t>, std::optional<std::int64_t>,
                      std::optional<double>, std::optional<int>, bool, bool, std::uint32_t, RingGeometry,
                      XskGeometry>(),
             nb::kw_only(), nb::arg("ifindex"), nb::arg("batch"), nb::arg("count") = nb::none(),
             nb::arg("duration_ns") = nb::none(), nb::arg("rate_pps") = nb::none(),
             nb::arg("cpu") = nb::none(), nb::arg("qdisc_bypass") = false, nb::arg("stamp") = false,
             nb::arg("queue") = 0, nb::arg("ring") = RingGeometry{}, nb::arg("xsk") = XskGeometry{});
}

void bind_engine(nb::module_& m, const char* name, Engine engine, const char* doc) {
    m.def(name, engine, nb::arg("table"), nb::arg("config"), nb::arg("stop"), nb::arg("progress"),
          nb::call_guard<nb::gil_scoped_release>(), doc);
}

}  // namespace

void bind_engines(nb::module_& m) {
    bind_report(m);
    bind_config(m);
    bind_engine(m, "send", &tx_send, "Send the table's frames over and over, one send() a frame.");
    bind_engine(m, "sendmmsg", &tx_sendmmsg, "Send the table's frames over and over, a batch a sendmmsg().");
    bind_engine(m, "tx_ring", &tx_ring, "Send them through a mapped ring, a batch a kick.");
    bind_engine(m, "gso", &tx_gso, "Send the table's UDP frames over and over, a batch a super-packet.");
    bind_engine(m, "af_xdp", &tx_xsk, "Send them through an AF_XDP socket, a batch a wake-up.");
    bind_engine(m, "xdp_live", &tx_xdp, "Send them as live frames of an XDP program, a batch a bpf() call.");
}

}  // namespace labkit
