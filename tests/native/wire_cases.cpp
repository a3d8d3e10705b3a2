// The real loops on an interface of a private network; its number is the program's argument.
#include <system_error>
#include <thread>

#include "harness.h"
#include "threads.h"
#include "tx.h"
#include "udp_frames.h"

using labkit::EndedBy;

namespace {

// Frames of 60, 61, ... bytes, and one too short for a header where asked.
labkit::FrameTable frames(std::size_t number, std::optional<std::size_t> bad = std::nullopt) {
    std::vector<std::uint64_t> offsets;
    std::vector<std::uint32_t> lengths;
    std::uint64_t end = 0;
    for (std::size_t i = 0; i < number; ++i) {
        const std::uint32_t length = i == bad ? 13 : static_cast<std::uint32_t>(60 + i % 200);
        offsets.push_back(end);
        lengths.push_back(length);
        end += length;
    }
    const std::vector<std::uint8_t> block(end, 0x02);
    return labkit::FrameTable(block.data(), block.size(), offsets, lengths);
}

labkit::TxConfig config(std::uint32_t batch, std::optional<std::uint64_t> count) {
    labkit::TxConfig asked;
    asked.ifindex = harness::argument();
    asked.batch = batch;
    asked.count = count;
    return asked;
}

labkit::TxConfig ring_config(std::uint32_t batch, std::optional<std::uint64_t> count, std::uint32_t slots) {
    labkit::TxConfig asked = config(batch, count);
    asked.ring = {slots, 512, 4096};
    return asked;
}

labkit::TxConfig xsk_config(std::uint32_t batch, std::optional<std::uint64_t> count, std::uint32_t slots) {
    labkit::TxConfig asked = config(batch, count);
    asked.xsk = {1024, slots, 512, 2048, (slots * 512 + 4095) / 4096 * 4096};
    return asked;
}

}  // namespace

CASE(every_batch_and_table_size_sends_its_count) {
    for (const std::uint32_t batch : {1U, 2U, 63U, 64U, 1024U}) {
        for (const std::size_t size : {1UL, 2UL, 65UL, 1500UL}) {
            labkit::StopFlag stop;
            labkit::Progress progress;
            const labkit::TxReport report =
                labkit::tx_sendmmsg(frames(size), config(batch, 1501), stop, progress);
            EQUAL(report.sent, 1501U);
            EQUAL(report.calls, (1501U + batch - 1) / batch);
            EQUAL(progress.sent(), 1501U);
        }
    }
}

CASE(send_sends_its_count) {
    labkit::StopFlag stop;
    labkit::Progress progress;
    const labkit::TxReport report = labkit::tx_send(frames(7), config(1, 500), stop, progress);
    EQUAL(report.sent, 500U);
    EQUAL(report.calls, 500U);
}

CASE(bad_frame_is_skipped_wherever_it_lies) {
    for (const std::size_t bad : {0UL, 10UL, 63UL}) {
        labkit::StopFlag stop;
        labkit::Progress progress;
        const labkit::TxReport report = labkit::tx_sendmmsg(frames(64, bad), config(64, 128), stop, progress);
        EQUAL(report.sent, 126U);
        EQUAL(report.refused_by_errno.at(EINVAL), 2U);
    }
}

CASE(ring_of_any_size_sends_its_count) {
    for (const std::uint32_t batch : {1U, 63U, 64U}) {
        for (const std::uint32_t slots : {64U, 1024U}) {
            for (const std::size_t size : {1UL, 65UL, 1500UL}) {
                labkit::StopFlag stop;
                labkit::Progress progress;
                const labkit::TxReport report =
                    labkit::tx_ring(frames(size), ring_config(batch, 1501, slots), stop, progress);
                EQUAL(report.sent, 1501U);
                EQUAL(report.calls, (1501U + batch - 1) / batch);
            }
        }
    }
}

CASE(bad_slot_is_skipped_wherever_it_lies) {
    for (const std::size_t bad : {0UL, 10UL, 63UL}) {
        labkit::StopFlag stop;
        labkit::Progress progress;
        const labkit::TxReport report =
            labkit::tx_ring(frames(64, bad), ring_config(64, 6400, 128), stop, progress);
        EQUAL(report.sent, 6300U);
        EQUAL(report.refused_by_errno.at(EINVAL), 100U);
    }
}

CASE(super_packets_of_any_size_carry_the_count) {
    for (const std::uint32_t batch : {1U, 2U, 63U, 64U}) {
        for (const std::size_t size : {1UL, 2UL, 65UL}) {
            labkit::StopFlag stop;
            labkit::Progress progress;
            const labkit::TxReport report =
                labkit::tx_gso(udp_table(size, 60 + size), config(batch, 1501), stop, progress);
            EQUAL(report.sent, 1501U);
            EQUAL(report.super_packets.value(), (1501U + batch - 1) / batch);
        }
    }
}

CASE(af_xdp_sends_its_count_and_skips_bad_frames) {
    for (const std::uint32_t slots : {64U, 24U}) {  // of a table of 64
        for (const std::uint32_t batch : {1U, 63U, 64U}) {
            labkit::StopFlag stop;
            labkit::Progress progress;
            const labkit::TxReport report =
                labkit::tx_xsk(frames(64, 10), xsk_config(batch, 1280, slots), stop, progress);
            EQUAL(report.sent, 1260U);
            EQUAL(report.refused_by_errno.at(EINVAL), 20U);
            EQUAL(progress.sent(), 1260U);
        }
    }
}

CASE(stamped_tables_of_any_size_send_their_count) {
    for (const std::uint32_t batch : {1U, 63U, 128U}) {
        for (const std::size_t size : {1UL, 65UL, 500UL}) {
            labkit::StopFlag stop;
            labkit::Progress progress;
            labkit::TxConfig asked = ring_config(batch, 1501, 1024);
            asked.stamp = true;
            const labkit::FrameTable table = udp_table(size, 60);
            EQUAL(labkit::tx_sendmmsg(table, asked, stop, progress).sent, 1501U);
            EQUAL(labkit::tx_ring(table, asked, stop, progress).sent, 1501U);
            EQUAL(labkit::tx_gso(table, asked, stop, progress).sent, 1501U);
            asked.xsk = xsk_config(1, 1, 200).xsk;
            EQUAL(labkit::tx_xsk(table, asked, stop, progress).sent, 1501U);
            asked.batch = 1;
            EQUAL(labkit::tx_send(table, asked, stop, progress).sent, 1501U);
            THROWS(std::invalid_argument, labkit::tx_send(udp_table(1, 57), asked, stop, progress));
            THROWS(std::invalid_argument, labkit::tx_xsk(udp_table(1, 57), asked, stop, progress));
        }
    }
}

CASE(stop_from_another_thread_ends_the_run) {
    labkit::StopFlag stop;
    labkit::Progress progress;
    std::thread other([&] {
        while (progress.sent() < 1'000) std::this_thread::yield();
        stop.set();
    });
    labkit::TxConfig asked = config(64, std::nullopt);
    asked.duration_ns = 30'000'000'000;
    const labkit::TxReport report = labkit::tx_sendmmsg(frames(64), asked, stop, progress);
    other.join();
    CLAIM(report.ended_by == EndedBy::kStop);
    CLAIM(report.sent >= 1'000);
    CLAIM(report.cpu_ns > 0);
}

CASE(sockets_that_close_apart_leave_neither_thread_nor_descriptor) {
    EQUAL(threads_that_stay(), 1U);
    const std::size_t descriptors = entries("/proc/self/fd");
    labkit::StopFlag stop;
    labkit::Progress progress;
    for (int run = 0; run < 5; ++run) {
        EQUAL(labkit::tx_xsk(frames(64), xsk_config(64, 640, 64), stop, progress).sent, 640U);
        EQUAL(labkit::tx_ring(frames(64), ring_config(64, 640, 128), stop, progress).sent, 640U);
    }
    EQUAL(threads_that_stay(), 1U);
    EQUAL(entries("/proc/self/fd"), descriptors);
}

CASE(impossible_requests_leave_nothing_open) {
    labkit::StopFlag stop;
    labkit::Progress progress;
    labkit::TxConfig nowhere = config(1, 1);
    nowhere.ifindex = 4321;
    THROWS(std::system_error, labkit::tx_send(frames(1), nowhere, stop, progress));
    THROWS(std::invalid_argument, labkit::tx_send(frames(1), config(2, 1), stop, progress));
    THROWS(std::invalid_argument, labkit::tx_sendmmsg(frames(1), config(0, 1), stop, progress));
    THROWS(std::invalid_argument, labkit::tx_sendmmsg(frames(1), config(1025, 1), stop, progress));
    THROWS(std::invalid_argument, labkit::tx_ring(frames(1), config(1, 1), stop, progress));
    THROWS(std::invalid_argument, labkit::tx_ring(frames(1), ring_config(65, 1, 64), stop, progress));
    THROWS(std::invalid_argument, labkit::tx_ring(frames(1), ring_config(1, 1, 65), stop, progress));
    THROWS(std::invalid_argument, labkit::tx_ring(udp_table(1, 600), ring_config(1, 1, 64), stop, progress));
    THROWS(std::invalid_argument, labkit::tx_gso(frames(1), config(2, 1), stop, progress));
    THROWS(std::invalid_argument, labkit::tx_gso(udp_table(1, 60), config(129, 1), stop, progress));
    THROWS(std::invalid_argument, labkit::tx_gso(udp_table(1, 1514), config(45, 1), stop, progress));
    THROWS(std::invalid_argument, labkit::tx_xsk(frames(1), config(1, 1), stop, progress));
    THROWS(std::invalid_argument, labkit::tx_xsk(frames(1), xsk_config(1025, 1, 64), stop, progress));
    THROWS(std::invalid_argument, labkit::tx_xsk(udp_table(1, 600), xsk_config(1, 1, 64), stop, progress));
    labkit::TxConfig no_queue = xsk_config(1, 1, 64);
    no_queue.queue = 4321;
    THROWS(std::system_error, labkit::tx_xsk(frames(1), no_queue, stop, progress));
    labkit::TxConfig unpinnable = config(1, 1);
    unpinnable.cpu = 100'000;
    THROWS(std::invalid_argument, labkit::tx_send(frames(1), unpinnable, stop, progress));
}
