// Live frames by a real kernel, as root on an interface whose number is the argument: what the program
// counts.
#include <string>
#include <system_error>
#include <thread>

#include "allocations.h"
#include "bpf.h"
#include "bpf_code.h"
#include "harness.h"
#include "tx.h"
#include "udp_frames.h"

using labkit::EndedBy;

namespace {

labkit::TxConfig config(std::uint32_t batch, std::optional<std::uint64_t> count) {
    labkit::TxConfig asked;
    asked.ifindex = harness::argument();
    asked.batch = batch;
    asked.count = count;
    return asked;
}

}  // namespace

CASE(every_batch_and_table_size_hands_over_its_count) {
    for (const std::uint32_t batch : {1U, 63U, 64U, 4096U}) {
        for (const std::size_t size : {1UL, 2UL, 65UL, 1500UL}) {
            for (const bool stamp : {false, true}) {
                labkit::StopFlag stop;
                labkit::Progress progress;
                labkit::TxConfig asked = config(batch, 1501);
                asked.stamp = stamp;
                const labkit::TxReport report = labkit::tx_xdp(udp_table(size, 60), asked, stop, progress);
                EQUAL(report.sent, 1501U);
                EQUAL(report.calls, (1501U + batch - 1) / batch);
                CLAIM(report.qdisc_bypass);
            }
        }
    }
}

CASE(live_frames_want_no_memory_for_frames) {
    const labkit::FrameTable table = udp_table(64, 60);
    for (const bool stamp : {false, true}) {
        const auto wanted = [&](std::uint64_t count) {
            labkit::StopFlag stop;
            labkit::Progress progress;
            labkit::TxConfig asked = config(64, count);
            asked.stamp = stamp;
            return allocations::of([&] { EQUAL(labkit::tx_xdp(table, asked, stop, progress).sent, count); });
        };
        const std::size_t few = wanted(640);
        CLAIM(few > 0);
        EQUAL(wanted(64'000), few);
    }
}

CASE(stop_from_another_thread_ends_live_frames) {
    labkit::StopFlag stop;
    labkit::Progress progress;
    std::thread other([&] {
        while (progress.sent() < 10'000) std::this_thread::yield();
        stop.set();
    });
    labkit::TxConfig asked = config(4096, std::nullopt);
    asked.duration_ns = 30'000'000'000;
    const labkit::TxReport report = labkit::tx_xdp(udp_table(3, 60), asked, stop, progress);
    other.join();
    CLAIM(report.ended_by == EndedBy::kStop);
    CLAIM(report.sent >= 10'000);
}

CASE(impossible_live_frames_leave_nothing_open) {
    labkit::StopFlag stop;
    labkit::Progress progress;
    labkit::TxConfig nowhere = config(1, 1);
    nowhere.ifindex = 4321;
    THROWS(std::system_error, labkit::tx_xdp(udp_table(1, 60), nowhere, stop, progress));
    THROWS(std::invalid_argument, labkit::tx_xdp(udp_table(1, 60), config(0, 1), stop, progress));
    THROWS(std::invalid_argument, labkit::tx_xdp(udp_table(1, 60), config(16'385, 1), stop, progress));
    THROWS(std::invalid_argument, labkit::tx_xdp(udp_table(1, 4000), config(1, 1), stop, progress));
}

CASE(per_cpu_counters_add_up_and_take_updates) {
    const labkit::bpf::Map map = labkit::bpf::Map::per_cpu_array(12, 3);
    const std::uint8_t value[12] = {5};
    map.update(2, value);
    EQUAL(map.lookup(2).size(), labkit::bpf::possible_cpus() * 16);
    EQUAL(map.counters(2).at(0), 5 * labkit::bpf::possible_cpus());
    EQUAL(map.counters(1).at(0), 0U);
    THROWS(std::system_error, map.lookup(3));
}

CASE(refused_program_has_the_verifiers_words) {
    using namespace labkit::bpf;
    try {
        Program({load(Size::k8, Reg::r0, Reg::r1, 0), leave()}, "labkit_wrong");
    } catch (const std::system_error& error) {
        CLAIM(std::string(error.what()).find("invalid bpf_context access") != std::string::npos);
        return;
    }
    CLAIM(false);
}
