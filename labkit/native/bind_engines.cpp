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

const char* word(EndedBy ended) {
    switch (ended) {
        case EndedBy::kCount:
            return "count";
        case EndedBy::kDuration:
            return "duration";
        case EndedBy::kStop:
            return "stop";
        case EndedBy::kError:
            break;
    }
    return "error";
}

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
        .def_ro("fatal_errno", &TxReport::fatal_errno)
        .def_prop_ro("gaps", &filled, "Of a paced run: smallest nanoseconds of a bucket, and its calls.")
        .def_prop_ro("burst_frames", &burst)
        .def_prop_ro("ended_by", [](const TxReport& report) { return word(report.ended_by); });
}

template <Engine engine>
void bind_engine(nb::module_& m, const char* name, const char* doc) {
    m.def(
        name,
        [](const FrameTable& table, const StopFlag& stop, Progress& progress, int ifindex,
           std::uint32_t batch, std::optional<std::uint64_t> count, std::optional<std::int64_t> duration_ns,
           std::optional<double> rate_pps, std::optional<int> cpu, bool qdisc_bypass, bool stamp) {
            return engine(
                table, TxConfig{ifindex, batch, count, duration_ns, rate_pps, cpu, qdisc_bypass, stamp, {}},
                stop, progress);
        },
        nb::arg("table"), nb::arg("stop"), nb::arg("progress"), nb::kw_only(), nb::arg("ifindex"),
        nb::arg("batch"), nb::arg("count") = nb::none(), nb::arg("duration_ns") = nb::none(),
        nb::arg("rate_pps") = nb::none(), nb::arg("cpu") = nb::none(), nb::arg("qdisc_bypass") = false,
        nb::arg("stamp") = false, nb::call_guard<nb::gil_scoped_release>(), doc);
}

// The ring's geometry has no default: who asks for one has worked it out from the frames.
void bind_ring(nb::module_& m) {
    m.def(
        "tx_ring",
        [](const FrameTable& table, const StopFlag& stop, Progress& progress, int ifindex,
           std::uint32_t batch, std::optional<std::uint64_t> count, std::optional<std::int64_t> duration_ns,
           std::optional<double> rate_pps, std::optional<int> cpu, bool qdisc_bypass, bool stamp,
           std::uint32_t ring_slots, std::uint32_t slot_bytes, std::uint32_t block_bytes) {
            const RingGeometry ring{ring_slots, slot_bytes, block_bytes};
            return tx_ring(
                table, TxConfig{ifindex, batch, count, duration_ns, rate_pps, cpu, qdisc_bypass, stamp, ring},
                stop, progress);
        },
        nb::arg("table"), nb::arg("stop"), nb::arg("progress"), nb::kw_only(), nb::arg("ifindex"),
        nb::arg("batch"), nb::arg("count") = nb::none(), nb::arg("duration_ns") = nb::none(),
        nb::arg("rate_pps") = nb::none(), nb::arg("cpu") = nb::none(), nb::arg("qdisc_bypass") = false,
        nb::arg("stamp") = false, nb::arg("ring_slots"), nb::arg("slot_bytes"), nb::arg("block_bytes"),
        nb::call_guard<nb::gil_scoped_release>(),
        "Send the table's frames over and over through a mapped ring, a batch a kick.");
}

}  // namespace

void bind_engines(nb::module_& m) {
    bind_report(m);
    bind_engine<&tx_send>(m, "send", "Send the table's frames over and over, one send() a frame.");
    bind_engine<&tx_sendmmsg>(m, "sendmmsg", "Send the table's frames over and over, a batch a sendmmsg().");
    bind_ring(m);
    bind_engine<&tx_gso>(m, "gso", "Send the table's UDP frames over and over, a batch a super-packet.");
    bind_engine<&tx_xdp>(m, "xdp_live", "Send the table's frames over and over, a batch a bpf() call.");
}

}  // namespace labkit
