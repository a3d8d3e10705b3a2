// Stamps of whole runs: every attempt has its number and its time, whatever the kernel does with it.
#include <random>

#include "fakes.h"
#include "harness.h"
#include "ring_slots.h"
#include "seen_stamps.h"
#include "stamped_frames.h"

namespace {

// Reads a batch only once all of it is stamped, as a device may that takes frames without copying them.
struct Tap {
    Tap(const labkit::FrameTable& table, std::uint32_t batch, FakeClock& its_clock)
        : stamped(table, batch), clock(its_clock) {}

    labkit::StampedFrames stamped;
    FakeClock& clock;
    std::function<labkit::Taken(std::uint32_t)> answer = [](std::uint32_t frames) {
        return labkit::Taken{frames, 0};
    };
    std::vector<Seen> taken;

    labkit::Taken call(std::size_t first, std::uint32_t frames) {
        stamped.stamp(first, frames);
        const labkit::Taken done = answer(frames);
        if (done.error == 0) {
            for (std::uint32_t i = 0; i < done.frames; ++i) {
                taken.push_back(seen(static_cast<const std::uint8_t*>(stamped.frame(first + i).iov_base)));
            }
        }
        clock.pass(1'000 * frames);
        return done;
    }
};

struct TapRun {
    TapRun(std::size_t frames, const labkit::TxConfig& its_config)
        : table(ports(frames)), config(its_config), tap(table, config.batch, clock) {}

    labkit::FrameTable table;
    labkit::TxConfig config;
    FakeClock clock;
    Tap tap;
    labkit::StopFlag stop;
    labkit::Progress progress;
    labkit::TxReport report;

    const std::vector<Seen>& run() {
        labkit::TxLoop<Tap, FakeClock>(tap, clock, table.size(), config, stop, progress, report,
                                       &tap.stamped.stamper())
            .run();
        return tap.taken;
    }
};

}  // namespace

CASE(every_message_of_a_batch_has_bytes_of_its_own) {
    for (const std::size_t frames : {1UL, 3UL, 64UL, 100UL}) {
        TapRun tap(frames, asked_for(64, 1'000));
        const std::vector<Seen>& taken = tap.run();
        EQUAL(taken.size(), 1'000U);
        for (std::size_t i = 0; i < taken.size(); ++i) {
            EQUAL(taken[i].sequence, i);
            EQUAL(static_cast<std::size_t>(taken[i].port), i % frames);
        }
    }
}

CASE(frames_that_overlap_in_the_table_are_stamped_apart) {
    const std::vector<std::uint8_t> block = udp_frame(kFrameBytes);
    const labkit::FrameTable table(block.data(), block.size(), {0, 0, 0}, {60, 60, 60});
    labkit::StampedFrames stamped(table, 1);
    for (std::uint32_t i = 0; i < 3; ++i) {
        stamped.stamper().begin(i, 0, 0);
        stamped.stamp(i, 1);
    }
    for (std::uint32_t i = 0; i < 3; ++i)
        EQUAL(seen(static_cast<const std::uint8_t*>(stamped.frame(i).iov_base)).sequence, i);
}

CASE(number_counts_attempts_whatever_the_kernel_does) {
    std::mt19937 random(20240512);
    for (int round = 0; round < 200; ++round) {
        TapRun tap(1 + random() % 90, asked_for(static_cast<std::uint32_t>(1 + random() % 70), 500));
        std::uint32_t attempt = 0;
        std::vector<std::uint32_t> wanted;
        tap.tap.answer = [&](std::uint32_t frames) -> labkit::Taken {
            if (random() % 5 == 0) return {0, EINTR};
            if (random() % 5 == 0) return {1, (++attempt, ENOBUFS)};
            const auto done = static_cast<std::uint32_t>(1 + random() % frames);
            for (std::uint32_t i = 0; i < done; ++i) wanted.push_back(attempt++);
            return {done, 0};
        };
        const std::vector<Seen>& taken = tap.run();
        EQUAL(taken.size(), wanted.size());
        for (std::size_t i = 0; i < taken.size(); ++i) {
            EQUAL(taken[i].sequence, wanted[i]);
            EQUAL(static_cast<std::size_t>(taken[i].port), wanted[i] % tap.table.size());
        }
    }
}

CASE(unpaced_frames_carry_the_time_at_which_their_batch_began) {
    TapRun tap(3, asked_for(64, 200));
    const std::vector<Seen>& taken = tap.run();
    for (std::size_t i = 0; i < taken.size(); ++i) {
        EQUAL(taken[i].seconds, kStartSeconds);
        EQUAL(taken[i].microseconds, i / 64 * 64);
    }
}

CASE(paced_frames_carry_the_time_at_which_they_are_due) {
    for (const double rate_pps : {20'000.0, 200'000.0}) {
        labkit::TxConfig config = asked_for(64, 30'000);
        config.rate_pps = rate_pps;
        TapRun tap(3, config);
        // late by a second, which the bucket does not make good: who looks at the stamps sees it
        tap.tap.answer = [&](std::uint32_t frames) {
            if (tap.tap.taken.size() == 64) tap.clock.pass(1'000'000'000);
            return labkit::Taken{frames, 0};
        };
        for (const Seen& one : tap.run()) {
            const double due_us = one.sequence * 1e6 / rate_pps;
            EQUAL((one.seconds - kStartSeconds) * 1'000'000 + one.microseconds,
                  static_cast<std::uint32_t>(due_us));
        }
    }
}

namespace {

// Hands every slot back later than the next kick, and looks that nothing on its way changes meanwhile.
struct SlowKernel {
    static constexpr std::uint32_t kSlots = 32, kSlotBytes = 128;
    std::vector<std::uint64_t> memory = std::vector<std::uint64_t>(kSlots * kSlotBytes / 8);
    std::uint32_t head = 0;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> on_their_way;  // slot and its number
    std::vector<Seen> taken;

    std::uint8_t* slot(std::uint32_t at) {
        return reinterpret_cast<std::uint8_t*>(memory.data()) + at * kSlotBytes;
    }
    tpacket2_hdr* header(std::uint32_t at) { return reinterpret_cast<tpacket2_hdr*>(slot(at)); }
    bool takes(std::size_t) const { return true; }

    int kick() {
        for (const auto& [at, number] : on_their_way) {
            EQUAL(seen(slot(at) + labkit::kSlotDataOffset).sequence, number);
            header(at)->tp_status = TP_STATUS_AVAILABLE;
        }
        on_their_way.clear();
        for (; header(head)->tp_status == TP_STATUS_SEND_REQUEST; head = (head + 1) % kSlots) {
            taken.push_back(seen(slot(head) + labkit::kSlotDataOffset));
            on_their_way.emplace_back(head, taken.back().sequence);
            header(head)->tp_status = TP_STATUS_SENDING;
        }
        return 0;
    }
};

}  // namespace

CASE(slots_are_stamped_each_time_and_never_on_their_way) {
    for (const std::size_t frames : {1UL, 16UL, 50UL}) {
        const labkit::FrameTable table = ports(frames);
        SlowKernel kernel;
        labkit::Stamper stamper(table);
        labkit::RingSlots<SlowKernel> ring(kernel.slot(0), {SlowKernel::kSlots, SlowKernel::kSlotBytes, 4096},
                                           table, kernel, &stamper);
        FakeClock clock;
        labkit::StopFlag stop;
        labkit::Progress progress;
        labkit::TxReport report;
        labkit::TxLoop<labkit::RingSlots<SlowKernel>, FakeClock>(
            ring, clock, table.size(), asked_for(16, 1'000), stop, progress, report, &stamper)
            .run();
        EQUAL(kernel.taken.size(), 1'000U);
        for (std::size_t i = 0; i < 1'000; ++i) {
            EQUAL(kernel.taken[i].sequence, i);
            EQUAL(static_cast<std::size_t>(kernel.taken[i].port), i % frames);
        }
    }
}
