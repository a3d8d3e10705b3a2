#include <nanobind/stl/array.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <string>

#include "bind_all.h"
#include "histogram.h"
#include "sim_config.h"

namespace nb = nanobind;

namespace labkit {
namespace {

using sim::Config;
using sim::LaneReport;
using sim::ModerationConfig;
using sim::Report;
using sim::TracePoint;

std::map<std::string, std::uint64_t> counts_by_name(const LaneReport& lane) {
    std::map<std::string, std::uint64_t> counts;
    for (std::size_t one = 0; one < sim::kCounts; ++one) counts[sim::kCountNames[one]] = lane.counts[one];
    return counts;
}

void bind_config(nb::module_& m) {
    nb::enum_<sim::Moderation>(m, "SimModeration", "When the card raises an interrupt.")
        .value("INTERVAL", sim::Moderation::kInterval)
        .value("DYNAMIC", sim::Moderation::kDynamic)
        .value("HOLD_OFF", sim::Moderation::kHoldOff);
    nb::enum_<sim::WhenFull>(m, "SimWhenFull", "What a sender does that finds its queue stopped.")
        .value("SPIN", sim::WhenFull::kSpin)
        .value("REFUSE", sim::WhenFull::kRefuse)
        .value("QUEUE", sim::WhenFull::kQueue);
    nb::class_<ModerationConfig>(m, "SimModerationConfig", "Moderation of one direction; ps.")
        .def(nb::init<>())
        .def_rw("kind", &ModerationConfig::kind)
        .def_rw("period", &ModerationConfig::period)
        .def_rw("frames", &ModerationConfig::frames);
    nb::class_<Config>(m, "SimConfig", "What the simulated NIC is asked; every time in picoseconds.")
        .def(nb::init<>())
        .def_rw("duration", &Config::duration)
        .def_rw("warmup", &Config::warmup)
        .def_rw("count", &Config::count)
        .def_rw("lanes", &Config::lanes)
        .def_rw("samples", &Config::samples)
        .def_rw("trace", &Config::trace)
        .def_rw("seed", &Config::seed)
        .def_rw("tx_ring", &Config::tx_ring)
        .def_rw("frame_bytes", &Config::frame_bytes)
        .def_rw("wire", &Config::wire)
        .def_rw("fetch", &Config::fetch)
        .def_rw("write_back", &Config::write_back)
        .def_rw("drop_interrupt_every", &Config::drop_interrupt_every)
        .def_rw("carrier_lost_at", &Config::carrier_lost_at)
        .def_rw("stop_descriptors", &Config::stop_descriptors)
        .def_rw("wake_descriptors", &Config::wake_descriptors)
        .def_rw("clean_limit", &Config::clean_limit)
        .def_rw("tx_moderation", &Config::tx_moderation)
        .def_rw("rx_moderation", &Config::rx_moderation)
        .def_rw("shared_vector", &Config::shared_vector)
        .def_rw("packet", &Config::packet)
        .def_rw("burst_ps", &Config::burst_ps)
        .def_rw("call_ps", &Config::call_ps)
        .def_rw("doorbell", &Config::doorbell)
        .def_rw("burst", &Config::burst)
        .def_rw("batch", &Config::batch)
        .def_rw("clean", &Config::clean)
        .def_rw("interrupt", &Config::interrupt)
        .def_rw("repoll", &Config::repoll)
        .def_rw("cached", &Config::cached)
        .def_rw("cache_miss", &Config::cache_miss)
        .def_rw("shared_line", &Config::shared_line)
        .def_rw("locked_stall", &Config::locked_stall)
        .def_rw("sends", &Config::sends)
        .def_rw("injects", &Config::injects)
        .def_rw("when_full", &Config::when_full)
        .def_rw("queue_limit", &Config::queue_limit)
        .def_rw("gap", &Config::gap)
        .def_rw("bql", &Config::bql)
        .def_rw("bql_stops", &Config::bql_stops)
        .def_rw("bql_min", &Config::bql_min)
        .def_rw("bql_max", &Config::bql_max)
        .def_rw("bql_hold", &Config::bql_hold)
        .def_rw("rx_ring", &Config::rx_ring)
        .def_rw("rx_budget", &Config::rx_budget)
        .def_rw("arrival_gap", &Config::arrival_gap)
        .def_rw("poisson", &Config::poisson)
        .def_rw("receive", &Config::receive)
        .def_rw("window", &Config::window)
        .def_rw("ack_every", &Config::ack_every)
        .def_rw("ack_delay", &Config::ack_delay)
        .def_rw("ack_jitter", &Config::ack_jitter)
        .def_rw("small_queue", &Config::small_queue);
}

void bind_report(nb::module_& m) {
    nb::class_<LaneReport>(m, "SimLane", "What one simulated CPU and its queue pair did.")
        .def_prop_ro("counts", &counts_by_name)
        .def_ro("waiting_ps", &LaneReport::waiting_ps)
        .def_ro("uncleaned_ps", &LaneReport::uncleaned_ps)
        .def_ro("most_in_flight", &LaneReport::most_in_flight)
        .def_ro("bql_limit", &LaneReport::bql_limit)
        .def_ro("itr", &LaneReport::itr);
    nb::class_<sim::Sample>(
        m, "SimSample", "Counts of all lanes at one simulated time, and the first one's byte queue limits.")
        .def_ro("at", &sim::Sample::at)
        .def_ro("sent", &sim::Sample::sent)
        .def_ro("received", &sim::Sample::received)
        .def_ro("bql_limit", &sim::Sample::bql_limit)
        .def_ro("bql_inflight", &sim::Sample::bql_inflight);
    nb::class_<TracePoint>(m, "SimTracePoint", "The first lane's ring at one simulated time.")
        .def_ro("at", &TracePoint::at)
        .def_ro("waiting", &TracePoint::waiting)
        .def_ro("uncleaned", &TracePoint::uncleaned)
        .def_prop_ro("interrupt", [](const TracePoint& point) { return point.interrupt != 0; })
        .def_ro("bql_limit", &TracePoint::bql_limit)
        .def_ro("bql_inflight", &TracePoint::bql_inflight);
    nb::class_<Report>(m, "SimReport", "What the simulation counted.")
        .def_ro("lanes", &Report::lanes)
        .def_ro("samples", &Report::samples)
        .def_ro("trace", &Report::trace)
        .def_ro("latency", &Report::latency)
        .def_ro("carrier_lost", &Report::carrier_lost);
}

}  // namespace

void bind_sim(nb::module_& m) {
    bind_config(m);
    bind_report(m);
    m.def("simulate", &sim::simulate, nb::arg("config"), nb::call_guard<nb::gil_scoped_release>(),
          "Run the simulated NIC; ValueError for a config that no card could have.");
    m.def("histogram_floor", &Histogram::floor, nb::arg("bucket"), "Smallest value of a histogram's bucket.");
}

}  // namespace labkit
