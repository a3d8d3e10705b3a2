// The slots of a ring against a fake kernel that walks them as tpacket_snd() does.
#include <map>
#include <random>
#include <vector>

#include "fakes.h"
#include "harness.h"
#include "ring_slots.h"

namespace {

constexpr std::uint32_t kSlotBytes = 128;

labkit::FrameTable numbered(std::size_t frames) {
    std::vector<std::uint64_t> offsets;
    std::vector<std::uint32_t> lengths;
    std::vector<std::uint8_t> block;
    for (std::size_t i = 0; i < frames; ++i) {
        offsets.push_back(block.size());
        lengths.push_back(static_cast<std::uint32_t>(14 + i % 80));
        block.insert(block.end(), lengths.back(), static_cast<std::uint8_t>(i));
    }
    return labkit::FrameTable(block.data(), block.size(), offsets, lengths);
}

struct FakeRing {
    explicit FakeRing(std::uint32_t slot_count) : slots(slot_count), memory(slot_count * kSlotBytes / 8) {}

    std::uint32_t slots;
    std::vector<std::uint64_t> memory;
    std::uint32_t head = 0;
    std::size_t limit = 1500;
    std::map<std::uint8_t, int> bad;                                            // errno by a frame's number
    std::function<int(std::uint64_t)> fails = [](std::uint64_t) { return 0; };  // errno by number of the slot
    std::function<bool()> frees = [] { return true; };  // whether what is on its way has left by now
    std::uint64_t looked_at = 0;
    std::vector<std::uint8_t> taken;
    std::vector<std::uint32_t> lengths;

    std::uint8_t* bytes() { return reinterpret_cast<std::uint8_t*>(memory.data()); }
    tpacket2_hdr* slot(std::uint32_t at) {
        return reinterpret_cast<tpacket2_hdr*>(bytes() + at * kSlotBytes);
    }

    bool takes(std::size_t frame_bytes) const { return frame_bytes <= limit; }

    int kick() {
        const int error = walk();
        if (frees()) {
            for (std::uint32_t at = 0; at < slots; ++at)
                if (slot(at)->tp_status == TP_STATUS_SENDING) slot(at)->tp_status = TP_STATUS_AVAILABLE;
        }
        return error;
    }

    int walk() {
        while (slot(head)->tp_status == TP_STATUS_SEND_REQUEST) {
            const std::uint8_t number = *(bytes() + head * kSlotBytes + labkit::kSlotDataOffset);
            if (const int error = fails(looked_at++)) return error;  // the slot still asks to be sent
            if (const auto found = bad.find(number); found != bad.end()) {
                slot(head)->tp_status = TP_STATUS_WRONG_FORMAT;
                return found->second;
            }
            taken.push_back(number);
            lengths.push_back(slot(head)->tp_len);
            slot(head)->tp_status = TP_STATUS_SENDING;
            head = (head + 1) % slots;
        }
        return 0;
    }
};

struct RingBench {
    RingBench(std::uint32_t slot_count, std::size_t table_frames)
        : kernel(slot_count),
          table(numbered(table_frames)),
          ring(kernel.bytes(), {slot_count, kSlotBytes, 4096}, table, kernel) {}

    FakeRing kernel;
    labkit::FrameTable table;
    labkit::RingSlots<FakeRing> ring;
    FakeClock clock;
    labkit::StopFlag stop;
    labkit::Progress progress;
    labkit::TxReport report;

    const labkit::TxReport& run(const labkit::TxConfig& config) {
        labkit::TxLoop<labkit::RingSlots<FakeRing>, FakeClock>(ring, clock, table.size(), config, stop,
                                                               progress, report)
            .run();
        return report;
    }
};

}  // namespace

CASE(ring_frames_leave_in_order_with_their_lengths) {
    RingBench bench(64, 100);
    EQUAL(bench.run(asked_for(16, 1000)).sent, 1000U);
    EQUAL(bench.report.calls, 63U);
    for (std::size_t i = 0; i < 1000; ++i) {
        EQUAL(static_cast<std::size_t>(bench.kernel.taken[i]), i % 100);
        EQUAL(bench.kernel.lengths[i], 14 + i % 100 % 80);
    }
}

CASE(slot_of_wrong_format_is_refused_once_and_strands_nothing) {
    RingBench bench(64, 64);
    bench.kernel.bad = {{10, EMSGSIZE}};
    bench.run(asked_for(64, 64));
    EQUAL(bench.report.sent, 63U);
    EQUAL(bench.report.refused_by_errno.at(EMSGSIZE), 1U);
    EQUAL(bench.report.calls, 3U);
    EQUAL(bench.report.partial_returns, 1U);
    EQUAL(bench.kernel.taken.size(), 63U);
}

CASE(frame_that_would_only_fill_the_kernel_log_is_not_handed_over) {
    RingBench bench(64, 80);
    bench.kernel.limit = 50;
    bench.run(asked_for(32, 80));
    EQUAL(bench.report.sent, 37U);
    EQUAL(bench.report.refused_by_errno.at(EMSGSIZE), 43U);
    EQUAL(bench.kernel.looked_at, 37U);
}

CASE(full_ring_is_waited_for_without_a_call) {
    RingBench bench(64, 64);
    bench.kernel.frees = [] { return false; };
    EQUAL(bench.ring.call(0, 64).frames, 64U);
    const labkit::Taken full = bench.ring.call(0, 1);
    EQUAL(full.error, EAGAIN);
    EQUAL(full.calls, 0U);
    EQUAL(bench.kernel.taken.size(), 64U);
    bench.kernel.slot(0)->tp_status = TP_STATUS_AVAILABLE;
    EQUAL(bench.ring.call(7, 1).frames, 1U);
    EQUAL(static_cast<int>(bench.kernel.taken.back()), 7);
}

CASE(slot_that_comes_back_late_ends_the_batch_before_it) {
    RingBench bench(64, 64);
    bench.kernel.frees = [] { return false; };
    bench.ring.call(0, 64);
    for (const std::uint32_t at : {0U, 1U, 3U}) bench.kernel.slot(at)->tp_status = TP_STATUS_AVAILABLE;
    EQUAL(bench.ring.call(0, 4).frames, 2U);
    EQUAL(static_cast<unsigned>(bench.kernel.slot(2)->tp_status), unsigned{TP_STATUS_SENDING});
}

CASE(lost_device_ends_the_run_and_takes_the_slots_back) {
    RingBench bench(64, 64);
    bench.kernel.fails = [](std::uint64_t slot) { return slot >= 100 ? ENETDOWN : 0; };
    bench.run(asked_for(16, 1000));
    EQUAL(bench.report.sent, 100U);
    EQUAL(bench.report.fatal_errno.value(), ENETDOWN);
    for (std::uint32_t at = 0; at < 64; ++at)
        CLAIM(bench.kernel.slot(at)->tp_status != TP_STATUS_SEND_REQUEST);
}

CASE(whatever_the_kernel_does_with_slots_every_frame_is_attempted_once_and_in_order) {
    std::mt19937 random(20240301);
    for (int round = 0; round < 300; ++round) {
        const std::uint32_t slots = (64U << random() % 3) + (random() % 2 != 0 ? 32U : 0U);
        RingBench bench(slots, 1 + random() % 200);
        const std::uint64_t count = random() % 1000;
        for (std::size_t i = 0; i < bench.table.size(); ++i) {
            if (random() % 5 == 0) bench.kernel.bad[static_cast<std::uint8_t>(i)] = EINVAL;
        }
        bench.kernel.fails = [&](std::uint64_t) { return random() % 9 == 0 ? EAGAIN : 0; };
        bench.run(asked_for(static_cast<std::uint32_t>(1 + random() % 64), count));
        EQUAL(bench.report.sent + bench.report.refused, count);
        std::vector<std::uint8_t> wanted;
        for (std::uint64_t i = 0; i < count; ++i) {
            const auto number = static_cast<std::uint8_t>(i % bench.table.size());
            if (bench.kernel.bad.count(number) == 0) wanted.push_back(number);
        }
        CLAIM(bench.kernel.taken == wanted);
        EQUAL(bench.report.sent, wanted.size());
    }
}
