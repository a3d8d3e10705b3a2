// Stamps: where they go, what they say, and that checksums stay what they were.
#include <random>

#include "harness.h"
#include "stamp.h"
#include "udp_frames.h"

using labkit::folded_sum;
using labkit::word;

namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t kUdpBytes = 8;

iovec whole(Bytes& frame) { return {frame.data(), frame.size()}; }

// What the UDP datagram at `udp_at` and the addresses before it sum up to: ffff where its checksum is right.
std::uint32_t checked(const Bytes& frame, std::size_t udp_at, std::size_t addresses_at,
                      std::size_t addresses) {
    Bytes datagram(frame.begin() + static_cast<std::ptrdiff_t>(udp_at), frame.end());
    if (datagram.size() % 2 != 0) datagram.push_back(0);
    const auto udp_bytes = static_cast<std::uint32_t>(frame.size() - udp_at);
    const std::uint32_t pseudo = folded_sum(&frame[addresses_at], addresses, 17 + udp_bytes);
    return folded_sum(datagram.data(), datagram.size(), pseudo);
}

void make_right(Bytes& frame, std::size_t udp_at, std::size_t addresses_at, std::size_t addresses) {
    labkit::set_word(&frame[udp_at + 6], 0);
    const std::uint32_t sum = ~checked(frame, udp_at, addresses_at, addresses) & 0xffff;
    labkit::set_word(&frame[udp_at + 6], sum != 0 ? sum : 0xffff);
}

Bytes with_inserted(Bytes frame, std::size_t at, const Bytes& more) {
    frame.insert(frame.begin() + static_cast<std::ptrdiff_t>(at), more.begin(), more.end());
    return frame;
}

Bytes ipv6_frame(std::size_t payload_bytes) {
    Bytes frame = udp_frame(42 + payload_bytes);
    Bytes head(40, 0x20);
    head[0] = 0x60;
    labkit::set_word(&head[4], kUdpBytes + payload_bytes);
    head[6] = 17;
    frame.erase(frame.begin() + 14, frame.begin() + 34);
    labkit::set_word(&frame[12], 0x86dd);
    return with_inserted(frame, 14, head);
}

std::uint32_t long_word(const std::uint8_t* at) { return std::uint32_t{word(at)} << 16 | word(at + 2); }

std::string refusal(Bytes frame) {
    try {
        labkit::stamp_place(whole(frame), 7);
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
    return "";
}

bool says(const Bytes& frame, const char* words) { return refusal(frame).find(words) != std::string::npos; }

}  // namespace

CASE(stamp_is_pktgens_header) {
    Bytes frame = udp_frame(60);
    const labkit::StampPlace place = labkit::stamp_place(whole(frame), 0);
    labkit::write_stamp(frame.data(), place, labkit::stamp_of(0x1'0000'0002, 1'700'000'000'123'456'789));
    const Bytes wanted{0xbe, 0x9b, 0xe9, 0x55, 0, 0, 0, 2, 0x65, 0x53, 0xf1, 0, 0, 1, 0xe2, 0x40, 0x55, 0x55};
    CLAIM(Bytes(frame.begin() + 42, frame.end()) == wanted);
}

CASE(right_checksums_stay_right_whatever_is_stamped) {
    std::mt19937_64 random(20240410);
    for (int round = 0; round < 3000; ++round) {
        const bool ipv6 = random() % 2 != 0;
        const std::size_t payload = 16 + random() % 40;
        Bytes frame = ipv6 ? ipv6_frame(payload) : udp_frame(42 + payload);
        const std::size_t udp_at = ipv6 ? 54 : 34, from = ipv6 ? 22 : 26, addresses = ipv6 ? 32 : 8;
        // all ones are where +0 and -0 of the sum meet
        for (std::size_t i = udp_at + 8; i < frame.size(); ++i)
            frame[i] = random() % 3 != 0 ? 0xff : static_cast<std::uint8_t>(random());
        make_right(frame, udp_at, from, addresses);
        const labkit::StampPlace place = labkit::stamp_place(whole(frame), 0);
        for (int again = 0; again < 3; ++again) {
            labkit::write_stamp(frame.data(), place,
                                labkit::stamp_of(random(), static_cast<std::int64_t>(random() >> 1)));
            EQUAL(checked(frame, udp_at, from, addresses), 0xffffU);
            CLAIM(word(&frame[udp_at + 6]) != 0);
        }
    }
}

CASE(sum_of_nothing_goes_out_as_all_ones) {
    Bytes frame = udp_frame(60);
    const labkit::StampPlace place = labkit::stamp_place(whole(frame), 0);
    bool met = false;
    for (std::uint32_t sequence = 0; sequence < 0x10000 && !met; ++sequence) {
        labkit::write_stamp(frame.data(), place, {sequence, 0, 0});
        met = word(&frame[40]) == 0xffff;
        CLAIM(word(&frame[40]) != 0);
    }
    CLAIM(met);
}

CASE(absent_checksum_stays_absent) {
    Bytes frame = udp_frame(60);
    labkit::set_word(&frame[40], 0);
    labkit::write_stamp(frame.data(), labkit::stamp_place(whole(frame), 0), labkit::stamp_of(1, 1));
    EQUAL(word(&frame[40]), 0);
    EQUAL(long_word(&frame[42]), labkit::kStampMagic);
}

CASE(wrong_checksum_stays_as_wrong) {
    Bytes frame = udp_frame(60);
    make_right(frame, 34, 26, 8);
    labkit::set_word(&frame[40], word(&frame[40]) ^ 0x0100U);
    const std::uint32_t before = checked(frame, 34, 26, 8);
    labkit::write_stamp(frame.data(), labkit::stamp_place(whole(frame), 0), labkit::stamp_of(9, 1'000'000));
    EQUAL(checked(frame, 34, 26, 8), before);
    CLAIM(before != 0xffff);
}

CASE(place_is_found_behind_tags_and_options) {
    for (const std::size_t tags : {0UL, 1UL, 2UL}) {
        for (const std::size_t options : {0UL, 4UL, 40UL}) {
            Bytes frame = with_inserted(udp_frame(58), 34, Bytes(options, 1));
            frame[14] = static_cast<std::uint8_t>(0x45 + options / 4);
            for (std::size_t i = 0; i < tags; ++i) {
                const auto kind = static_cast<std::uint8_t>(i == 0 ? 0x81 : 0x88);
                frame = with_inserted(frame, 12, {kind, static_cast<std::uint8_t>(i == 0 ? 0 : 0xa8), 0, 5});
            }
            EQUAL(labkit::stamp_place(whole(frame), 0).payload_at, 42 + options + 4 * tags);
            frame.pop_back();
            const std::string words = "it takes " + std::to_string(58 + options + 4 * tags);
            CLAIM(says(frame, words.c_str()));
        }
    }
    Bytes frame = ipv6_frame(16);
    EQUAL(labkit::stamp_place(whole(frame), 0).payload_at, 62U);
    frame.pop_back();
    CLAIM(says(frame, "frame 7: 77 bytes hold no stamp, it takes 78"));
}

CASE(frames_without_room_or_udp_are_named) {
    CLAIM(says(udp_frame(57), "frame 7: 57 bytes hold no stamp, it takes 58"));
    CLAIM(says({}, "frame 7: 0 bytes"));
    const auto changed = [](std::size_t at, std::uint8_t value) {
        Bytes frame = udp_frame(60);
        frame[at] = value;
        return frame;
    };
    CLAIM(says(changed(13, 6), "neither IPv4 nor IPv6"));
    CLAIM(says(changed(14, 0x65), "no IPv4 header"));
    CLAIM(says(changed(14, 0x44), "no IPv4 header"));
    CLAIM(says(changed(23, 6), "IPv4 without UDP"));
    CLAIM(says(changed(20, 0x20), "a fragment"));
    CLAIM(says(changed(21, 1), "a fragment"));
    CLAIM(says(changed(39, 23), "UDP length of 23"));
    CLAIM(says(changed(14, 0x4f), "it takes 98"));
    Bytes ipv6 = ipv6_frame(16);
    ipv6[20] = 0;
    CLAIM(says(ipv6, "IPv6 without UDP right behind it"));
    ipv6[14] = 0x40;
    CLAIM(says(ipv6, "no IPv6 header"));
    CLAIM(says(Bytes(200, 0x81), "neither IPv4 nor IPv6"));
    Bytes tags(200, 0);
    for (std::size_t at = 12; at < 200; at += 4) tags[at] = 0x81;
    CLAIM(says(tags, "200 bytes hold no stamp"));
}

CASE(stamper_counts_and_times_a_batch) {
    Bytes block = udp_frame(60);
    const Bytes longer = with_inserted(udp_frame(58), 12, {0x81, 0, 0, 5});
    block.insert(block.end(), longer.begin(), longer.end());
    const labkit::FrameTable table(block.data(), block.size(), {0, 60}, {60, 62});
    labkit::Stamper stamper(table);
    stamper.begin(41, 5'000'000'000, 1'500.0);
    stamper.write(&block[60], 1, 3);
    EQUAL(long_word(&block[60 + 46]), labkit::kStampMagic);
    EQUAL(long_word(&block[60 + 50]), 44U);
    EQUAL(long_word(&block[60 + 54]), 5U);
    EQUAL(long_word(&block[60 + 58]), 4U);  // 3 frames of 1.5 us
    const Bytes mixed(120, 0x55);
    THROWS(std::invalid_argument, labkit::Stamper(labkit::FrameTable(mixed.data(), 120, {0}, {60})));
}
