// Receiving sinks on an interface of a private network; its number is the program's argument.
#include <chrono>
#include <system_error>
#include <thread>

#include "harness.h"
#include "rx_loop.h"
#include "rx_ring.h"
#include "rx_socket.h"
#include "tx.h"
#include "udp_frames.h"

namespace {

labkit::RxConfig config() {
    labkit::RxConfig asked;
    asked.ifindex = harness::argument();
    asked.check = {true, true, false, 0};
    asked.block_bytes = 1 << 16;
    asked.blocks = 64;
    asked.retire_ms = 2;
    asked.batch = 64;
    asked.buffer_bytes = 4 << 20;
    return asked;
}

void send(const labkit::FrameTable& table, std::uint64_t count) {
    labkit::TxConfig asked;
    asked.ifindex = harness::argument();
    asked.batch = 32;
    asked.count = count;
    labkit::StopFlag stop;
    labkit::Progress progress;
    EQUAL(labkit::tx_sendmmsg(table, asked, stop, progress).sent, count);
}

template <class Source>
void receive_everything() {
    const labkit::FrameTable table = udp_table(5, 80);
    const labkit::Progress sender;
    labkit::Receiver<Source> receiver(table, config(), sender);
    labkit::StopFlag stop;
    labkit::RxReport report;
    std::thread reader([&] { report = receiver.run(stop, std::nullopt); });
    send(table, 1001);
    stop.set();
    reader.join();
    EQUAL(report.received + report.kernel_dropped, 1001U);
    EQUAL(report.received, receiver.received());
    EQUAL(report.foreign, 0U);
    EQUAL(report.corrupted, 0U);
    CLAIM(report.drained);
}

template <class Source>
void stop_without_a_frame() {
    const labkit::FrameTable table = udp_table(1, 80);
    const labkit::Progress sender;
    labkit::Receiver<Source> receiver(table, config(), sender);
    labkit::StopFlag stop;
    stop.set();
    const labkit::RxReport report = receiver.run(stop, std::nullopt);
    EQUAL(report.received, 0U);
    CLAIM(report.drained);
}

}  // namespace

CASE(a_ring_receives_everything) { receive_everything<labkit::RxRing>(); }
CASE(a_socket_receives_everything) { receive_everything<labkit::RxSocket>(); }
CASE(a_ring_stops_without_a_frame) { stop_without_a_frame<labkit::RxRing>(); }
CASE(a_socket_stops_without_a_frame) { stop_without_a_frame<labkit::RxSocket>(); }

CASE(a_ring_that_nobody_reads_drops_and_says_so) {
    const labkit::FrameTable table = udp_table(3, 80);
    const labkit::Progress sender;
    labkit::RxConfig tiny = config();
    tiny.block_bytes = 4096;
    tiny.blocks = 2;
    labkit::Receiver<labkit::RxRing> receiver(table, tiny, sender);
    send(table, 500);
    labkit::StopFlag stop;
    stop.set();
    const labkit::RxReport report = receiver.run(stop, std::nullopt);
    CLAIM(report.kernel_dropped > 400);
    EQUAL(report.received + report.kernel_dropped, 500U);
    CLAIM(report.drained);
}

CASE(sockets_of_a_group_share_what_arrives) {
    const labkit::FrameTable table = udp_table(4, 80);
    const labkit::Progress sender;
    labkit::Receiver<labkit::RxRing> one(table, config(), sender), other(table, config(), sender);
    const std::uint32_t group = one.share(std::nullopt);
    EQUAL(other.share(group), group);
    send(table, 1000);
    labkit::StopFlag stop;
    stop.set();
    const std::uint64_t first = one.run(stop, std::nullopt).received;
    EQUAL(first + other.run(stop, std::nullopt).received, 1000U);
}

CASE(a_ring_of_no_whole_pages_is_refused) {
    labkit::RxConfig odd = config();
    odd.block_bytes = 5000;
    const labkit::FrameTable table = udp_table(1, 80);
    const labkit::Progress sender;
    THROWS(std::system_error, (labkit::Receiver<labkit::RxRing>(table, odd, sender)));
}

CASE(a_closed_sink_receives_no_more) {
    const labkit::FrameTable table = udp_table(1, 80);
    const labkit::Progress sender;
    labkit::Receiver<labkit::RxRing> receiver(table, config(), sender);
    receiver.close();
    receiver.close();
    labkit::StopFlag stop;
    THROWS(std::invalid_argument, receiver.run(stop, std::nullopt));
    THROWS(std::invalid_argument, receiver.share(std::nullopt));
    EQUAL(receiver.received(), 0U);
}
