// The program of live frames, run on recycled pages: what leaves is the table, frame by frame.
#include <linux/if_ether.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

#include "bpf_machine.h"
#include "harness.h"
#include "live_program.h"
#include "stamp.h"
#include "udp_frames.h"

using Bytes = std::vector<std::uint8_t>;

namespace {

constexpr int kStateFd = 5, kRowsFd = 6, kIfindex = 77;
constexpr std::size_t kPages = 5;

labkit::FrameTable table_of(const std::vector<Bytes>& frames) {
    Bytes block;
    std::vector<std::uint64_t> offsets;
    std::vector<std::uint32_t> lengths;
    for (const Bytes& frame : frames) {
        offsets.push_back(block.size());
        lengths.push_back(static_cast<std::uint32_t>(frame.size()));
        block.insert(block.end(), frame.begin(), frame.end());
    }
    return labkit::FrameTable(block.data(), block.size(), offsets, lengths);
}

// A program and the pages that it is given, each with the frame of an earlier turn in it.
class Sender {
  public:
    Sender(const std::vector<Bytes>& frames, const labkit::FrameRows& rows, const labkit::LiveState& state,
           std::optional<labkit::LiveStamp> stamp)
        : program_(labkit::live_program(rows, kIfindex, kStateFd, kRowsFd, stamp)),
          pages_(kPages, frames[0]) {
        machine.maps[kStateFd].resize(sizeof state);
        std::memcpy(machine.maps[kStateFd].data(), &state, sizeof state);
        machine.maps[kRowsFd] = rows.rows();
    }

    const Bytes& next() {
        Bytes& page = pages_[random_() % kPages];
        EQUAL(machine.run(program_, page), std::uint64_t{XDP_REDIRECT});
        EQUAL(machine.redirected_to, std::uint64_t{kIfindex});
        return page;
    }
    // As the kernel takes tags off: the addresses move to where the tag was.
    void untag_pages(std::size_t tags) {
        for (Bytes& page : pages_)
            for (std::size_t at = 4; at <= 4 * tags; at += 4) std::memmove(&page[at], &page[at - 4], 12);
    }
    std::uint64_t made() const {
        labkit::LiveState state;
        std::memcpy(&state, machine.maps.at(kStateFd).data(), sizeof state);
        return state.frames;
    }
    std::size_t instructions() const { return program_.size(); }

    BpfMachine machine;

  private:
    std::vector<bpf_insn> program_;
    std::vector<Bytes> pages_;
    std::mt19937 random_{7};
};

void every_frame_leaves(const std::vector<Bytes>& frames) {
    Sender sender(frames, labkit::FrameRows(table_of(frames)), {}, std::nullopt);
    for (std::size_t i = 0; i < 3 * frames.size() + 1; ++i) CLAIM(sender.next() == frames[i % frames.size()]);
    EQUAL(sender.made(), 3 * frames.size() + 1);
}

Bytes udp_with_checksum(std::size_t bytes, std::uint32_t checksum, std::uint8_t filler) {
    Bytes frame = udp_frame(bytes);
    std::fill(frame.begin() + 42, frame.end(), filler);
    labkit::set_word(&frame[40], checksum);
    return frame;
}

void stamps_are_those_of_other_engines(const std::vector<Bytes>& frames, bool due) {
    const labkit::FrameTable table = table_of(frames);
    std::vector<labkit::StampPlace> places;
    std::vector<std::uint32_t> sums;
    for (std::size_t i = 0; i < table.size(); ++i) {
        places.push_back(labkit::stamp_place(table.frame(i), i));
        sums.push_back(places[i].sum + (labkit::kStampMagic >> 16) + (labkit::kStampMagic & 0xffff));
    }
    labkit::LiveState state;
    state.frames = 0xfffffff0;  // numbers of 32 bits begin again within the test
    state.date_ns = 1'700'000'000'123'456'789;
    state.frame_ns = (std::uint64_t{3'333} << labkit::kFrameNsBits) + (1U << labkit::kFrameNsBits) / 3;
    Sender sender(frames, labkit::FrameRows(table, sums), state,
                  labkit::LiveStamp{places[0].payload_at, places[0].summed, due});
    std::uint64_t now_ns = 0;
    sender.machine.clock = [&] { return now_ns += 123'456'789'123; };
    for (std::uint64_t i = 0; i < 100; ++i) {
        const std::uint64_t number = state.frames + i;
        const std::uint64_t after_ns =
            due ? (number * state.frame_ns) >> labkit::kFrameNsBits : (i + 1) * 123'456'789'123;
        Bytes wanted = frames[i % frames.size()];
        labkit::write_stamp(wanted.data(), places[i % frames.size()],
                            labkit::stamp_of(number, state.date_ns + static_cast<std::int64_t>(after_ns)));
        CLAIM(sender.next() == wanted);
    }
}

}  // namespace

CASE(frames_that_are_alike_need_no_row) {
    const std::vector<Bytes> frames(4, udp_frame(60));
    const labkit::FrameRows rows(table_of(frames));
    CLAIM(rows.spans().empty());
    EQUAL(rows.stride(), 0U);
    every_frame_leaves(frames);
    CLAIM(Sender(frames, rows, {}, std::nullopt).instructions() <= 10);
}

CASE(ports_checksum_and_number_take_two_stores) {
    std::vector<Bytes> frames;
    for (std::uint32_t i = 0; i < 1000; ++i) {
        Bytes& frame = frames.emplace_back(udp_frame(60));
        labkit::set_word(&frame[34], 1000 + i);
        labkit::set_word(&frame[40], i * 7919 & 0xffff);
        labkit::set_long_word(&frame[42], i * 104729);
    }
    const labkit::FrameRows rows(table_of(frames));
    EQUAL(rows.spans().size(), 2U);
    every_frame_leaves(frames);
}

CASE(any_bytes_of_any_length_may_differ) {
    std::mt19937 random(20240611);
    for (int round = 0; round < 300; ++round) {
        const std::size_t length = 14 + random() % 120, number = 1 + random() % 40;
        std::vector<Bytes> frames(number, Bytes(length, 0x5a));
        for (Bytes& frame : frames)
            for (auto changes = random() % (round % 7 + 1); changes > 0; --changes)
                frame[random() % (round % 2 != 0 ? length : std::min<std::size_t>(length, 20))] =
                    static_cast<std::uint8_t>(random());
        every_frame_leaves(frames);
    }
}

CASE(frames_of_a_few_bytes_stay_within_themselves) {
    for (std::size_t length = 1; length < 10; ++length) {
        std::vector<Bytes> frames(3, Bytes(length));
        for (std::size_t i = 0; i < frames.size(); ++i) std::fill(frames[i].begin(), frames[i].end(), i);
        every_frame_leaves(frames);
    }
}

CASE(tags_that_a_receiver_took_off_a_page_are_there_again) {
    for (std::size_t tags = 1; tags <= 3; ++tags) {
        std::vector<Bytes> frames(3, Bytes(60));
        for (Bytes& frame : frames) {
            std::iota(frame.begin(), frame.end(), std::uint8_t{1});
            for (std::size_t i = 0; i < tags; ++i)
                labkit::set_word(&frame[12 + 4 * i], i % 2 != 0 ? ETH_P_8021Q : ETH_P_8021AD);
            frame[59] = static_cast<std::uint8_t>(&frame - frames.data());
        }
        Sender sender(frames, labkit::FrameRows(table_of(frames)), {}, std::nullopt);
        for (std::size_t i = 0; i < 30; ++i) {
            CLAIM(sender.next() == frames[i % frames.size()]);
            sender.untag_pages(tags);
        }
    }
}

CASE(packet_shorter_than_its_frame_is_dropped_untouched) {
    const std::vector<Bytes> frames = {Bytes(60, 1), Bytes(60, 2)};
    const labkit::FrameRows rows(table_of(frames));
    BpfMachine machine;
    machine.maps = {{kStateFd, Bytes(sizeof(labkit::LiveState))}, {kRowsFd, rows.rows()}};
    Bytes packet(59, 9);
    const auto program = labkit::live_program(rows, kIfindex, kStateFd, kRowsFd, std::nullopt);
    EQUAL(machine.run(program, packet), std::uint64_t{XDP_DROP});
    CLAIM(packet == Bytes(59, 9));
}

CASE(frame_of_another_length_is_named) {
    try {
        labkit::FrameRows(table_of({Bytes(60), Bytes(60), Bytes(61)}));
    } catch (const std::invalid_argument& error) {
        CLAIM(std::string(error.what()).find("frame 2 has 61 bytes and frame 0 has 60") == 0);
        return;
    }
    CLAIM(false);
}

CASE(rows_beyond_what_a_program_reaches_are_refused) {
    const std::vector<Bytes> frames = {Bytes(60, 1), Bytes(60, 2), Bytes(60, 3)};
    EQUAL(labkit::FrameRows(table_of(frames), {}, 3 * 64).rows().size(), 3U * 64);
    THROWS(std::invalid_argument, labkit::FrameRows(table_of(frames), {}, 3 * 64 - 1));
}

CASE(stamps_equal_those_that_other_engines_write) {
    std::vector<Bytes> summed, plain;
    for (std::uint32_t i = 0; i < 7; ++i) {
        summed.push_back(udp_with_checksum(60 + 7, 1 + i * 9000, static_cast<std::uint8_t>(i)));
        plain.push_back(udp_with_checksum(60 + 7, 0, static_cast<std::uint8_t>(i)));
    }
    for (const bool due : {false, true}) {
        stamps_are_those_of_other_engines(summed, due);
        stamps_are_those_of_other_engines(plain, due);
        stamps_are_those_of_other_engines({summed[3]}, due);
    }
}
