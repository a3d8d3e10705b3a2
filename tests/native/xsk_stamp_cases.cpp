// Stamps of an AF_XDP socket's frames: written into slots that nobody reads any more.
#include <map>
#include <random>

#include "fake_xsk.h"
#include "harness.h"
#include "seen_stamps.h"

namespace {

// Looks at each frame as it is taken, and that it is the same when it comes back.
struct StampedXsk {
    StampedXsk(std::uint32_t ring_frames, std::uint32_t slots, std::size_t frames)
        : kernel(ring_frames, slots),
          table(ports(frames)),
          stamper(table),
          sender(kernel.rings(), kernel.memory.data(),
                 {ring_frames, slots, kXskSlotBytes, 2048, kernel.memory.size()}, table, kernel, &stamper) {
        kernel.on_take = [this](std::uint64_t address, bool drops) {
            const Seen one = seen(&kernel.memory.at(address));
            CLAIM(on_their_way.emplace(address, one.sequence).second);
            if (!drops) taken.push_back(one);
        };
        kernel.on_return = [this](std::uint64_t address) {
            EQUAL(seen(&kernel.memory.at(address)).sequence, on_their_way.at(address));
            on_their_way.erase(address);
        };
    }

    FakeXsk kernel;
    labkit::FrameTable table;
    labkit::Stamper stamper;
    labkit::XskSender<FakeXsk> sender;
    std::map<std::uint64_t, std::uint32_t> on_their_way;  // numbers by address
    std::vector<Seen> taken;
    FakeClock clock;
    labkit::StopFlag stop;
    labkit::Progress progress;
    labkit::TxReport report;

    const std::vector<Seen>& run(const labkit::TxConfig& config) {
        labkit::TxLoop<labkit::XskSender<FakeXsk>, FakeClock>(sender, clock, table.size(), config, stop,
                                                              progress, report, &stamper)
            .run();
        sender.finish(report, 0);
        return taken;
    }
};

std::uint32_t microseconds_of(const Seen& one) {
    return (one.seconds - kStartSeconds) * 1'000'000 + one.microseconds;
}

}  // namespace

CASE(xsk_frames_are_stamped_each_time_they_leave) {
    for (const std::size_t frames : {1UL, 3UL, 64UL, 100UL}) {
        StampedXsk bench(64, 64, frames);
        const std::vector<Seen>& taken = bench.run(asked_for(16, 1'000));
        EQUAL(taken.size(), 1'000U);
        for (std::size_t i = 0; i < taken.size(); ++i) {
            EQUAL(taken[i].sequence, i);
            EQUAL(static_cast<std::size_t>(taken[i].port), i % frames);
        }
    }
}

CASE(xsk_slot_is_never_stamped_on_its_way) {
    StampedXsk bench(64, 32, 1);  // fewer slots than places in the ring
    bench.kernel.budget = 64;
    bench.kernel.frees = [] { return false; };
    bench.stamper.begin(0, 0, 0);
    EQUAL(bench.sender.call(0, 64).frames, 32U);
    bench.stamper.begin(32, 0, 0);
    EQUAL(bench.sender.call(0, 1).error, EAGAIN);
    bench.kernel.give_back();
    EQUAL(bench.sender.call(0, 1).frames, 1U);
    EQUAL(bench.taken.back().sequence, 32U);
}

CASE(xsk_paced_frames_carry_their_due_times_and_others_the_time_they_were_shown) {
    for (const double rate_pps : {20'000.0, 200'000.0}) {
        StampedXsk bench(64, 64, 3);
        labkit::TxConfig config = asked_for(64, 2'000);
        config.rate_pps = rate_pps;
        EQUAL(bench.run(config).size(), 2'000U);
        for (const Seen& one : bench.taken)
            EQUAL(microseconds_of(one), static_cast<std::uint32_t>(one.sequence * 1e6 / rate_pps));
    }
    StampedXsk unpaced(64, 64, 3);
    unpaced.kernel.on_take = [&](std::uint64_t address, bool) {
        EQUAL(microseconds_of(seen(&unpaced.kernel.memory.at(address))), unpaced.taken.size() / 16 * 10);
        unpaced.taken.push_back({});
        if (unpaced.taken.size() % 16 == 0) unpaced.clock.pass(10'000);
    };
    unpaced.kernel.on_return = [](std::uint64_t) {};
    EQUAL(unpaced.run(asked_for(16, 160)).size(), 160U);
}

CASE(xsk_number_counts_attempts_whatever_the_kernel_does) {
    std::mt19937 random(20240617);
    for (int round = 0; round < 400; ++round) {
        const std::uint32_t ring = 64U << random() % 3;
        const std::size_t size = 1 + random() % 200;
        StampedXsk bench(ring, static_cast<std::uint32_t>(1 + random() % ring), size);
        const std::uint64_t count = random() % 1'000;
        bench.kernel.budget = random() % 2 == 0 ? 32 : ring;
        bench.kernel.shows_its_place = random() % 2 == 0;
        std::vector<bool> drops;  // by attempt
        bench.kernel.says = [&](std::uint64_t) {
            const auto dice = random() % 20;
            if (dice == 0) return EAGAIN;
            if (dice == 1) return ENOBUFS;
            drops.push_back(dice == 2);
            return dice == 2 ? EBUSY : 0;
        };
        bench.kernel.frees = [&] { return random() % 4 != 0; };
        labkit::TxConfig config = asked_for(static_cast<std::uint32_t>(1 + random() % 64), count);
        if (random() % 2 == 0) config.rate_pps = 100'000;
        bench.run(config);
        EQUAL(bench.report.sent + bench.report.refused, count);
        std::vector<std::uint32_t> wanted;
        for (std::uint32_t attempt = 0; attempt < count; ++attempt)
            if (!drops.at(attempt)) wanted.push_back(attempt);
        EQUAL(bench.taken.size(), wanted.size());
        for (std::size_t i = 0; i < wanted.size(); ++i) {
            EQUAL(bench.taken[i].sequence, wanted[i]);
            EQUAL(static_cast<std::size_t>(bench.taken[i].port), wanted[i] % size);
            if (config.rate_pps) EQUAL(microseconds_of(bench.taken[i]), wanted[i] * 10);
        }
    }
}
