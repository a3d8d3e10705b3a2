// The rings of an AF_XDP socket against a fake kernel.
#include <random>
#include <vector>

#include "fake_xsk.h"
#include "harness.h"
#include "xsk_sender.h"

namespace {

// Frames of 14, 15, ... bytes, filled with their number.
labkit::FrameTable numbered(std::size_t frames, std::uint32_t shortest = 14) {
    std::vector<std::uint64_t> offsets;
    std::vector<std::uint32_t> lengths;
    std::vector<std::uint8_t> block;
    for (std::size_t i = 0; i < frames; ++i) {
        offsets.push_back(block.size());
        lengths.push_back(shortest + static_cast<std::uint32_t>(i % 80));
        block.insert(block.end(), lengths.back(), static_cast<std::uint8_t>(i));
    }
    return labkit::FrameTable(block.data(), block.size(), offsets, lengths);
}

struct XskBench {
    XskBench(std::uint32_t ring_frames, std::uint32_t slots, labkit::FrameTable frames)
        : kernel(ring_frames, slots),
          table(std::move(frames)),
          sender(kernel.rings(), kernel.memory.data(),
                 {ring_frames, slots, kXskSlotBytes, 2048, kernel.memory.size()}, table, kernel) {}

    FakeXsk kernel;
    labkit::FrameTable table;
    labkit::XskSender<FakeXsk> sender;
    FakeClock clock;
    labkit::StopFlag stop;
    labkit::Progress progress;
    labkit::TxReport report;

    const labkit::TxReport& run(const labkit::TxConfig& config) {
        labkit::TxLoop<labkit::XskSender<FakeXsk>, FakeClock>(sender, clock, table.size(), config, stop,
                                                              progress, report)
            .run();
        sender.finish(report, 0);
        return report;
    }
};

}  // namespace

CASE(xsk_frames_leave_in_order_with_their_lengths) {
    for (const std::uint32_t slots : {100U, 20U}) {  // the whole table, and a part of it
        XskBench bench(64, slots, numbered(100));
        EQUAL(bench.run(asked_for(16, 1000)).sent, 1000U);
        EQUAL(bench.report.calls, 63U);
        for (std::size_t i = 0; i < 1000; ++i) {
            EQUAL(static_cast<std::size_t>(bench.kernel.taken[i]), i % 100);
            EQUAL(bench.kernel.lengths[i], 14 + i % 100 % 80);
        }
    }
}

CASE(xsk_batch_beyond_the_kernels_budget_takes_more_calls_and_no_partial_return) {
    XskBench bench(64, 64, numbered(64));
    bench.run(asked_for(64, 640));
    EQUAL(bench.report.sent, 640U);
    EQUAL(bench.report.calls, 20U);
    EQUAL(bench.report.partial_returns, 0U);
}

CASE(xsk_dropped_frame_is_refused_once_and_strands_nothing) {
    for (const bool shows : {true, false}) {
        XskBench bench(64, 64, numbered(64));
        bench.kernel.shows_its_place = shows;
        bench.kernel.says = [](std::uint64_t look) { return look == 10 ? EBUSY : 0; };
        bench.run(asked_for(64, 64));
        EQUAL(bench.report.sent, 63U);
        EQUAL(bench.report.refused_by_errno.at(EBUSY), 1U);
        EQUAL(bench.kernel.taken.size(), 63U);
    }
}

CASE(xsk_frame_that_the_kernel_would_skip_in_silence_is_not_shown) {
    XskBench bench(64, 80, numbered(80, 4));
    bench.kernel.limit = 50;
    bench.run(asked_for(32, 80));
    EQUAL(bench.report.sent, 37U);
    EQUAL(bench.report.refused_by_errno.at(EINVAL), 10U);
    EQUAL(bench.report.refused_by_errno.at(EMSGSIZE), 33U);
    EQUAL(bench.kernel.looked, 37U);
}

CASE(xsk_tag_may_be_longer_by_itself) {
    std::vector<std::uint8_t> block(118, 0);
    block[12] = 0x81;
    XskBench bench(64, 2, labkit::FrameTable(block.data(), block.size(), {0, 14}, {104, 104}));
    bench.kernel.limit = 100;
    bench.run(asked_for(2, 4));
    EQUAL(bench.report.sent, 2U);
    EQUAL(bench.report.refused_by_errno.at(EMSGSIZE), 2U);
}

CASE(xsk_ring_without_room_is_waited_for_without_a_call) {
    for (const std::uint32_t slots : {64U, 50U}) {
        XskBench bench(64, slots, numbered(64));
        bench.kernel.budget = 64;
        bench.kernel.frees = [] { return false; };
        EQUAL(bench.sender.call(0, 64).frames, slots);
        const labkit::Taken full = bench.sender.call(0, 1);
        EQUAL(full.error, EAGAIN);
        EQUAL(full.calls, 0U);
        bench.kernel.give_back();
        EQUAL(bench.sender.call(7, 1).frames, 1U);
        EQUAL(static_cast<int>(bench.kernel.taken.back()), 7);
    }
}

CASE(xsk_kernel_without_memory_is_asked_again_but_not_for_ever) {
    XskBench some(64, 64, numbered(64));
    some.kernel.says = [](std::uint64_t look) { return look % 3 == 0 ? ENOBUFS : 0; };
    EQUAL(some.run(asked_for(16, 100)).sent, 100U);
    EQUAL(some.report.refused, 0U);
    XskBench none(64, 64, numbered(64));
    none.kernel.says = [](std::uint64_t look) { return look >= 40 ? ENOBUFS : 0; };
    EQUAL(none.run(asked_for(16, 100)).sent, 40U);
    EQUAL(none.report.fatal_errno.value(), ENOBUFS);
    EQUAL(none.report.refused, 0U);
    CLAIM(none.report.refused_by_errno.empty());
}

CASE(xsk_lost_device_ends_the_run_with_its_counts) {
    XskBench bench(64, 64, numbered(64));
    bench.kernel.says = [](std::uint64_t look) { return look >= 100 ? ENETDOWN : 0; };
    bench.run(asked_for(16, 1000));
    EQUAL(bench.report.sent, 100U);
    EQUAL(bench.report.fatal_errno.value(), ENETDOWN);
    EQUAL(bench.kernel.taken.size(), 100U);
}

CASE(xsk_queue_at_which_the_kernel_does_not_look_ends_the_run) {
    XskBench bench(64, 64, numbered(64));
    bench.kernel.is_zero_copy = true;  // of this fake: kick() moves nothing and says nothing
    struct Silent {
        FakeXsk& kernel;
        bool takes(std::size_t, std::size_t) const { return true; }
        bool zero_copy() const { return false; }
        int kick() { return kernel.kick(); }
    } silent{bench.kernel};
    labkit::XskSender<Silent> sender(bench.kernel.rings(), bench.kernel.memory.data(),
                                     {64, 64, kXskSlotBytes, 2048, bench.kernel.memory.size()}, bench.table,
                                     silent);
    EQUAL(sender.call(0, 4).error, ENXIO);
}

CASE(xsk_device_that_reads_the_ring_itself_is_woken_only_when_it_asks) {
    XskBench bench(64, 64, numbered(64));
    bench.kernel.is_zero_copy = true;
    bench.kernel.flags = 0;
    labkit::Taken none = bench.sender.call(0, 16);
    EQUAL(none.error, EAGAIN);
    EQUAL(none.calls, 0U);
    for (int i = 0; i < 10; ++i) bench.kernel.take(false);
    bench.kernel.tx_consumer = bench.kernel.at;
    bench.kernel.flags = XDP_RING_NEED_WAKEUP;
    const labkit::Taken some = bench.sender.call(0, 16);
    EQUAL(some.frames, 10U);
    EQUAL(some.calls, 1U);
    // what it takes while the engine ends is counted, too
    for (int i = 0; i < 6; ++i) bench.kernel.take(false);
    bench.kernel.tx_consumer = bench.kernel.at;
    bench.kernel.give_back();
    bench.report.sent = 10;
    bench.sender.finish(bench.report, 0);
    EQUAL(bench.report.sent, 16U);
    EQUAL(bench.kernel.taken.size(), 16U);
}

CASE(xsk_drop_that_the_loop_has_not_heard_of_is_in_the_report) {
    XskBench bench(64, 64, numbered(64));
    bench.kernel.says = [](std::uint64_t look) { return look == 5 ? EBUSY : 0; };
    EQUAL(bench.sender.call(0, 16).frames, 5U);
    bench.sender.finish(bench.report, 0);
    EQUAL(bench.report.sent, 0U);
    EQUAL(bench.report.refused, 1U);
    EQUAL(bench.report.refused_by_errno.at(EBUSY), 1U);
}

CASE(xsk_whatever_the_kernel_does_every_frame_is_attempted_once_and_in_order) {
    std::mt19937 random(20240302);
    for (int round = 0; round < 600; ++round) {
        const std::uint32_t ring = 64U << random() % 3;
        const std::size_t size = 1 + random() % 200;
        const auto slots = static_cast<std::uint32_t>(random() % 2 == 0 ? size : 1 + random() % size);
        XskBench bench(ring, slots, numbered(size));
        const std::uint64_t count = random() % 1000;
        bench.kernel.budget = random() % 2 == 0 ? 32 : ring;
        bench.kernel.shows_its_place = random() % 2 == 0;
        std::vector<bool> drops;  // by place in what is sent
        bench.kernel.says = [&](std::uint64_t) {
            const auto dice = random() % 20;
            if (dice == 0) return EAGAIN;
            if (dice == 1) return ENOBUFS;
            drops.push_back(dice == 2);
            return dice == 2 ? EBUSY : 0;
        };
        bench.kernel.frees = [&] { return random() % 4 != 0; };
        bench.run(asked_for(static_cast<std::uint32_t>(1 + random() % 64), count));
        EQUAL(bench.report.sent + bench.report.refused, count);
        EQUAL(drops.size(), count);
        std::vector<std::uint8_t> wanted;
        for (std::uint64_t i = 0; i < count; ++i)
            if (!drops[i]) wanted.push_back(static_cast<std::uint8_t>(i % size));
        CLAIM(bench.kernel.taken == wanted);
        EQUAL(bench.report.sent, wanted.size());
    }
}
