// What a receiving sink tells of frames: numbers, strangers, corruption, latency.
#include <random>
#include <set>

#include "harness.h"
#include "rx.h"
#include "udp_frames.h"

using labkit::SequenceTracker;

namespace {

using Bytes = std::vector<std::uint8_t>;

labkit::FrameTable table_of(const std::vector<Bytes>& frames) {
    std::vector<std::uint64_t> offsets;
    std::vector<std::uint32_t> lengths;
    Bytes block;
    for (const Bytes& frame : frames) {
        offsets.push_back(block.size());
        lengths.push_back(static_cast<std::uint32_t>(frame.size()));
        block.insert(block.end(), frame.begin(), frame.end());
    }
    return labkit::FrameTable(block.data(), block.size(), offsets, lengths);
}

// Frame `index` of a table, numbered, without a UDP checksum.
Bytes numbered(std::uint32_t number, std::uint8_t index) {
    Bytes frame = udp_frame(64);
    frame[40] = frame[41] = 0;
    frame[63] = index;
    const std::uint8_t header[] = {0xbe,
                                   0x9b,
                                   0xe9,
                                   0x55,
                                   static_cast<std::uint8_t>(number >> 24),
                                   static_cast<std::uint8_t>(number >> 16),
                                   static_cast<std::uint8_t>(number >> 8),
                                   static_cast<std::uint8_t>(number)};
    std::copy(std::begin(header), std::end(header), frame.begin() + 42);
    return frame;
}

labkit::ArrivedFrame arrived(const Bytes& bytes) {
    const auto size = static_cast<std::uint32_t>(bytes.size());
    return {bytes.data(), size, size, std::nullopt, false, false};
}

labkit::RxConfig checking(bool content, bool numbers) {
    labkit::RxConfig config;
    config.check = {true, content, numbers, 0};
    return config;
}

}  // namespace

CASE(numbers_are_told_apart_as_a_set_tells_them) {
    std::mt19937 random(7);
    for (const std::uint32_t first : {0U, 0xfffffff0U}) {
        SequenceTracker tracker(first);
        std::set<std::int64_t> seen;
        std::uint64_t duplicates = 0, late = 0;
        std::int64_t next = 0, base = 0;
        for (int i = 0; i < 200'000; ++i) {
            base += random() % 3;
            const std::int64_t place =
                std::max<std::int64_t>(0, base + static_cast<std::int64_t>(random() % 64) - 32);
            EQUAL(tracker.place(first + static_cast<std::uint32_t>(place)), place);
            tracker.add(place);
            if (!seen.insert(place).second) {
                ++duplicates;
            } else if (place < next) {
                ++late;
            }
            next = std::max(next, place + 1);
        }
        EQUAL(tracker.distinct(), seen.size());
        EQUAL(tracker.duplicates(), duplicates);
        EQUAL(tracker.reordered(), late);
        EQUAL(tracker.beyond_window(), 0U);
    }
}

CASE(a_leap_over_the_window_forgets_it) {
    SequenceTracker tracker(0);
    for (std::int64_t place = 0; place < 100; ++place) tracker.add(place);
    tracker.add(100 * SequenceTracker::kWindow);
    tracker.add(100 * SequenceTracker::kWindow - 1);
    tracker.add(100 * SequenceTracker::kWindow - 1);
    tracker.add(99);
    EQUAL(tracker.distinct(), 103U);
    EQUAL(tracker.duplicates(), 1U);
    EQUAL(tracker.reordered(), 2U);
    EQUAL(tracker.beyond_window(), 1U);
}

CASE(a_number_before_the_first_has_no_place) {
    const SequenceTracker tracker(5);
    EQUAL(tracker.place(4), -1);
    EQUAL(tracker.place(5), 0);
}

CASE(arrivals_are_counted_by_what_they_are) {
    const labkit::FrameTable table = table_of({numbered(0, 0), numbered(0, 1), numbered(0, 2)});
    const labkit::Progress sender;
    labkit::Arrivals arrivals(table, checking(true, true), sender);
    for (const std::uint32_t number : {0U, 1U, 3U, 2U, 3U}) {
        arrivals.frame(arrived(numbered(number, static_cast<std::uint8_t>(number % 3))));
    }
    arrivals.frame(arrived(numbered(4, 2)));  // the bytes of another frame
    Bytes stranger = numbered(5, 2);
    stranger[0] ^= 0xff;
    arrivals.frame(arrived(stranger));
    arrivals.frame(arrived(Bytes(3)));
    labkit::ArrivedFrame own = arrived(stranger);
    own.outgoing = true;
    arrivals.frame(own);
    const labkit::RxReport report = arrivals.report();
    EQUAL(report.received, 6U);
    EQUAL(report.corrupted, 1U);
    EQUAL(report.foreign, 3U);
    EQUAL(report.distinct, 4U);
    EQUAL(report.duplicates, 1U);
    EQUAL(report.reordered, 1U);
    EQUAL(arrivals.seen(), 9U);
}

CASE(frames_cut_off_anywhere_are_corrupted_or_foreign) {
    const labkit::FrameTable table = table_of({numbered(0, 0)});
    const labkit::Progress sender;
    for (const bool numbers : {true, false}) {
        labkit::Arrivals arrivals(table, checking(true, numbers), sender);
        for (std::size_t bytes = 0; bytes < 64; ++bytes) {
            Bytes frame = numbered(0, 0);
            frame.resize(bytes);
            frame.shrink_to_fit();
            arrivals.frame(arrived(frame));
        }
        EQUAL(arrivals.report().foreign, 14U);
        EQUAL(arrivals.report().corrupted, 50U);
    }
}

CASE(a_tag_that_the_kernel_took_off_is_put_back) {
    Bytes sent = numbered(0, 0);
    const std::uint8_t tag[] = {0x81, 0x00, 0x20, 0x07};
    sent.insert(sent.begin() + 12, std::begin(tag), std::end(tag));
    const labkit::FrameTable table = table_of({sent});
    const labkit::Progress sender;
    for (const bool numbers : {true, false}) {
        labkit::Arrivals arrivals(table, checking(true, numbers), sender);
        const Bytes bare = numbered(0, 0);
        labkit::ArrivedFrame frame = arrived(bare);
        frame.tag = 0x81002007;
        arrivals.frame(frame);
        frame.tag = 0x81002008;
        arrivals.frame(frame);
        frame.tag = std::nullopt;
        arrivals.frame(frame);
        EQUAL(arrivals.report().received, 2U);
        EQUAL(arrivals.report().corrupted, 1U);
        EQUAL(arrivals.report().foreign, 1U);
    }
}

CASE(a_long_tagged_frame_of_others_is_foreign) {
    const labkit::FrameTable table = table_of({numbered(0, 0)});
    const labkit::Progress sender;
    labkit::Arrivals arrivals(table, checking(true, false), sender);
    const Bytes jumbo(9000, 1);
    labkit::ArrivedFrame frame = arrived(jumbo);
    frame.tag = 0x81000001;
    arrivals.frame(frame);
    EQUAL(arrivals.report().foreign, 1U);
}

CASE(latency_is_from_when_the_batch_was_due) {
    const labkit::FrameTable table = table_of({numbered(0, 0)});
    labkit::Progress sender;
    labkit::RxConfig config = checking(true, true);
    config.burst_frames = 2;
    labkit::Arrivals arrivals(table, config, sender);
    arrivals.batch(500);
    arrivals.frame(arrived(numbered(0, 0)));  // nothing is due before the sender says when it began
    EQUAL(arrivals.report().latency_most_ns, 0U);
    sender.pace(1000, 100.0);
    arrivals.batch(1015);
    arrivals.frame(arrived(numbered(1, 0)));
    arrivals.batch(1260);
    arrivals.frame(arrived(numbered(2, 0)));
    arrivals.frame(arrived(numbered(3, 0)));
    const labkit::RxReport report = arrivals.report();
    EQUAL(report.latency_most_ns, 60U);
    EQUAL(report.latency_ns.counts()[labkit::Histogram::bucket(15)], 1U);
    EQUAL(report.latency_ns.counts()[labkit::Histogram::bucket(60)], 2U);
}
