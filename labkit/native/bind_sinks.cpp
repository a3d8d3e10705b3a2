#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include "bind_all.h"
#include "rx_loop.h"
#include "rx_ring.h"
#include "rx_socket.h"
#include "rx_xdp.h"

namespace nb = nanobind;

namespace labkit {
namespace {

using Pairs = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

Pairs pairs(const Histogram& histogram) {
    Pairs found;
    for (std::size_t i = 0; i < histogram.counts().size(); ++i) {
        if (histogram.counts()[i] > 0) found.emplace_back(Histogram::floor(i), histogram.counts()[i]);
    }
    return found;
}

void bind_report(nb::module_& m) {
    nb::class_<RxReport>(m, "RxReport", "What one socket of a receiving sink saw.")
        .def_ro("received", &RxReport::received)
        .def_ro("foreign", &RxReport::foreign)
        .def_ro("corrupted", &RxReport::corrupted)
        .def_ro("distinct", &RxReport::distinct)
        .def_ro("duplicates", &RxReport::duplicates)
        .def_ro("reordered", &RxReport::reordered)
        .def_ro("beyond_window", &RxReport::beyond_window)
        .def_ro("kernel_dropped", &RxReport::kernel_dropped)
        .def_ro("latency_most_ns", &RxReport::latency_most_ns)
        .def_ro("cpu_ns", &RxReport::cpu_ns)
        .def_ro("drained", &RxReport::drained)
        .def_prop_ro(
            "latency_ns", [](const RxReport& report) { return pairs(report.latency_ns); },
            "Smallest value of each bucket that was hit, and how often.");
}

template <class Source>
auto bind_methods(nb::class_<Receiver<Source>>& receiver) {
    using R = Receiver<Source>;
    receiver
        .def("share", &R::share, nb::arg("group").none(),
             "Join a group of sockets, or begin one with None; its number comes back.")
        .def("run", &R::run, nb::arg("stop"), nb::arg("cpu").none(), nb::call_guard<nb::gil_scoped_release>(),
             "Receive on this thread until the stop flag, then what has arrived by then.")
        .def("close", &R::close, nb::call_guard<nb::gil_scoped_release>(), "Close it; what it counted stays.")
        .def_prop_ro("received", &R::received, "Frames of ours so far, readable from any thread.");
}

void bind_ring(nb::module_& m) {
    nb::class_<Receiver<RxRing>> receiver(m, "RxRing", "A receive ring in TPACKET_V3 on one interface.");
    receiver.def(
        "__init__",
        [](Receiver<RxRing>* self, const FrameTable& table, const Progress& sender, int ifindex,
           bool addresses, bool content, bool numbered, std::uint32_t first_number,
           std::optional<std::uint32_t> burst_frames, bool promiscuous, std::uint32_t block_bytes,
           std::uint32_t blocks, std::uint32_t retire_ms) {
            RxConfig config{ifindex, {addresses, content, numbered, first_number}, burst_frames, promiscuous};
            config.block_bytes = block_bytes;
            config.blocks = blocks;
            config.retire_ms = retire_ms;
            new (self) Receiver<RxRing>(table, config, sender);
        },
        nb::arg("table"), nb::arg("sender"), nb::kw_only(), nb::arg("ifindex"), nb::arg("addresses"),
        nb::arg("content"), nb::arg("numbered"), nb::arg("first_number"), nb::arg("burst_frames").none(),
        nb::arg("promiscuous"), nb::arg("block_bytes"), nb::arg("blocks"), nb::arg("retire_ms"),
        nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(), "Open it; frames are kept from now on.");
    bind_methods(receiver);
}

void bind_socket(nb::module_& m) {
    nb::class_<Receiver<RxSocket>> receiver(m, "RxSocket", "A packet socket that is read by recvmmsg().");
    receiver.def(
        "__init__",
        [](Receiver<RxSocket>* self, const FrameTable& table, const Progress& sender, int ifindex,
           bool addresses, bool content, bool numbered, std::uint32_t first_number,
           std::optional<std::uint32_t> burst_frames, bool promiscuous, std::uint32_t batch,
           std::uint32_t buffer_bytes) {
            RxConfig config{ifindex, {addresses, content, numbered, first_number}, burst_frames, promiscuous};
            config.batch = batch;
            config.buffer_bytes = buffer_bytes;
            new (self) Receiver<RxSocket>(table, config, sender);
        },
        nb::arg("table"), nb::arg("sender"), nb::kw_only(), nb::arg("ifindex"), nb::arg("addresses"),
        nb::arg("content"), nb::arg("numbered"), nb::arg("first_number"), nb::arg("burst_frames").none(),
        nb::arg("promiscuous"), nb::arg("batch"), nb::arg("buffer_bytes"), nb::keep_alive<1, 2>(),
        nb::keep_alive<1, 3>(), "Open it; frames are kept from now on.");
    bind_methods(receiver);
}

void bind_xdp(nb::module_& m) {
    nb::class_<XdpDrop>(m, "XdpDrop", "An XDP program that counts and drops what an interface receives.")
        .def(nb::init<int>(), nb::arg("ifindex"), "Attach it in this thread's network namespace.")
        .def("detach", &XdpDrop::detach, "Take it off; the count stays.")
        .def_prop_ro("received", &XdpDrop::counted, "Frames so far.");
}

// What needs no socket; the counting alone is for tests that hold it against its twin.
void bind_counting(nb::module_& m) {
    m.def("numbers_itself", &numbers_itself, nb::arg("table"),
          "Whether the frames carry pktgen's header with the numbers 0, 1, 2, ...");
    m.def(
        "count_arrivals",
        [](const FrameTable& table, const std::vector<nb::bytes>& frames, bool addresses, bool content,
           bool numbered, std::uint32_t first_number) {
            RxConfig config{};
            config.check = {addresses, content, numbered, first_number};
            const Progress sender;
            Arrivals arrivals(table, config, sender);
            for (const nb::bytes& frame : frames) {
                const auto bytes = static_cast<std::uint32_t>(frame.size());
                arrivals.frame(
                    {static_cast<const std::uint8_t*>(frame.data()), bytes, bytes, {}, false, false});
            }
            return arrivals.report();
        },
        nb::arg("table"), nb::arg("frames"), nb::kw_only(), nb::arg("addresses"), nb::arg("content"),
        nb::arg("numbered"), nb::arg("first_number") = 0,
        "What a receiving sink reports of these frames, in this order.");
}

}  // namespace

void bind_sinks(nb::module_& m) {
    bind_report(m);
    bind_ring(m);
    bind_socket(m);
    bind_xdp(m);
    bind_counting(m);
}

}  // namespace labkit
