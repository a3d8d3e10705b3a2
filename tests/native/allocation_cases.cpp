// No engine and no sink asks for memory a frame or a batch; the interface's number is the program's argument.
#include "allocations.h"
#include "harness.h"
#include "rx_loop.h"
#include "rx_ring.h"
#include "rx_socket.h"
#include "threads.h"
#include "tx.h"
#include "udp_frames.h"

namespace {

constexpr std::uint64_t kFew = 640;
constexpr std::uint64_t kMany = 64'000;

labkit::TxConfig config(std::uint32_t batch, std::uint64_t count) {
    labkit::TxConfig asked;
    asked.ifindex = harness::argument();
    asked.batch = batch;
    asked.count = count;
    asked.ring = {1024, 128, 4096};
    asked.xsk = {1024, 256, 128, 2048, 32'768};
    return asked;
}

using Engine = labkit::TxReport (*)(const labkit::FrameTable&, const labkit::TxConfig&,
                                    const labkit::StopFlag&, labkit::Progress&);

void sends_without_memory(Engine engine, std::uint32_t batch) {
    const labkit::FrameTable table = udp_table(64, 80);
    for (const bool stamp : {false, true}) {
        for (const bool paced : {false, true}) {
            const auto wanted = [&](std::uint64_t count) {
                labkit::TxConfig asked = config(batch, count);
                asked.stamp = stamp;
                if (paced) asked.rate_pps = 10e6;
                labkit::StopFlag stop;
                labkit::Progress progress;
                // a thread that closes a socket leaves its stack to the next one, once it has ended
                EQUAL(threads_that_stay(), 1U);
                return allocations::of([&] { EQUAL(engine(table, asked, stop, progress).sent, count); });
            };
            wanted(kFew);
            const std::size_t few = wanted(kFew);
            CLAIM(few > 0);
            EQUAL(wanted(kMany), few);
        }
    }
}

template <class Source>
void receives_without_memory() {
    const labkit::FrameTable table = udp_table(64, 80);
    for (const bool numbered : {false, true}) {
        labkit::RxConfig asked;
        asked.ifindex = harness::argument();
        asked.check = {true, true, numbered, 0};
        asked.block_bytes = 1 << 16;
        asked.blocks = 256;
        asked.retire_ms = 2;
        asked.batch = 64;
        asked.buffer_bytes = 4 << 20;
        if (numbered) asked.burst_frames = 1;
        const auto wanted = [&](std::uint64_t count) {
            labkit::Progress progress;
            labkit::Receiver<Source> receiver(table, asked, progress);
            labkit::TxConfig sending = config(64, count);
            sending.stamp = numbered;
            sending.rate_pps = 10e6;
            labkit::StopFlag stop;
            EQUAL(labkit::tx_sendmmsg(table, sending, stop, progress).sent, count);
            stop.set();
            return allocations::of([&] {
                const labkit::RxReport report = receiver.run(stop, std::nullopt);
                EQUAL(report.received + report.kernel_dropped, count);
                EQUAL(report.corrupted, 0U);
                CLAIM(numbered == (report.latency_most_ns > 0));
            });
        };
        const std::size_t few = wanted(kFew);
        EQUAL(wanted(10 * kFew), few);
    }
}

}  // namespace

CASE(send_wants_no_memory_for_frames) { sends_without_memory(labkit::tx_send, 1); }
CASE(sendmmsg_wants_no_memory_for_frames) { sends_without_memory(labkit::tx_sendmmsg, 64); }
CASE(tx_ring_wants_no_memory_for_frames) { sends_without_memory(labkit::tx_ring, 64); }
CASE(gso_wants_no_memory_for_frames) { sends_without_memory(labkit::tx_gso, 64); }
CASE(af_xdp_wants_no_memory_for_frames) { sends_without_memory(labkit::tx_xsk, 64); }
CASE(a_ring_that_receives_wants_no_memory_for_frames) { receives_without_memory<labkit::RxRing>(); }
CASE(a_socket_that_receives_wants_no_memory_for_frames) { receives_without_memory<labkit::RxSocket>(); }
