#include <nanobind/stl/optional.h>

#include "bind_all.h"
#include "tx.h"

namespace nb = nanobind;

namespace labkit {

// The geometry has no default: who asks for one has worked it out from the frames.
void bind_xsk(nb::module_& m) {
    m.def(
        "af_xdp",
        [](const FrameTable& table, const StopFlag& stop, Progress& progress, int ifindex,
           std::uint32_t batch, std::optional<std::uint64_t> count, std::optional<std::int64_t> duration_ns,
           std::optional<double> rate_pps, std::optional<int> cpu, bool qdisc_bypass, std::uint32_t queue,
           std::uint32_t ring_frames, std::uint32_t slots, std::uint32_t slot_bytes,
           std::uint32_t chunk_bytes, std::uint64_t memory_bytes) {
            TxConfig config{ifindex,      batch,
                            count,        duration_ns,
                            rate_pps,     cpu,
                            qdisc_bypass, {},
                            queue,        {ring_frames, slots, slot_bytes, chunk_bytes, memory_bytes}};
            return tx_xsk(table, config, stop, progress);
        },
        nb::arg("table"), nb::arg("stop"), nb::arg("progress"), nb::kw_only(), nb::arg("ifindex"),
        nb::arg("batch"), nb::arg("count") = nb::none(), nb::arg("duration_ns") = nb::none(),
        nb::arg("rate_pps") = nb::none(), nb::arg("cpu") = nb::none(), nb::arg("qdisc_bypass") = false,
        nb::arg("queue"), nb::arg("ring_frames"), nb::arg("slots"), nb::arg("slot_bytes"),
        nb::arg("chunk_bytes"), nb::arg("memory_bytes"), nb::call_guard<nb::gil_scoped_release>(),
        "Send the table's frames over and over through an AF_XDP socket, a batch a wake-up.");
}

}  // namespace labkit
