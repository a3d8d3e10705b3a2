#include <nanobind/stl/optional.h>

#include "bind_all.h"
#include "tx.h"

namespace nb = nanobind;

namespace labkit {

void bind_live(nb::module_& m) {
    m.def(
        "xdp_live",
        [](const FrameTable& table, const StopFlag& stop, Progress& progress, int ifindex,
           std::uint32_t batch, std::optional<std::uint64_t> count, std::optional<std::int64_t> duration_ns,
           std::optional<double> rate_pps, std::optional<int> cpu, bool qdisc_bypass, bool stamp) {
            TxConfig config;
            config.ifindex = ifindex;
            config.batch = batch;
            config.count = count;
            config.duration_ns = duration_ns;
            config.rate_pps = rate_pps;
            config.cpu = cpu;
            config.qdisc_bypass = qdisc_bypass;
            return tx_xdp(table, config, stamp, stop, progress);
        },
        nb::arg("table"), nb::arg("stop"), nb::arg("progress"), nb::kw_only(), nb::arg("ifindex"),
        nb::arg("batch"), nb::arg("count") = nb::none(), nb::arg("duration_ns") = nb::none(),
        nb::arg("rate_pps") = nb::none(), nb::arg("cpu") = nb::none(), nb::arg("qdisc_bypass") = false,
        nb::arg("stamp") = false, nb::call_guard<nb::gil_scoped_release>(),
        "Send the table's frames over and over as live frames of an XDP program, a batch a bpf() call.");
}

}  // namespace labkit
