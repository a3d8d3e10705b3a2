#include <cstring>
#include <random>

#include "harness.h"
#include "super_packet.h"
#include "udp_frames.h"

namespace {

std::uint32_t word(const std::uint8_t* at) { return static_cast<std::uint32_t>(at[0] << 8 | at[1]); }

std::uint32_t sum(const std::uint8_t* at, std::size_t bytes) {
    std::uint32_t total = 0;
    for (std::size_t i = 0; i < bytes; i += 2) total += word(at + i);
    while (total > 0xffff) total = (total & 0xffff) + (total >> 16);
    return total;
}

const std::uint8_t* headers(labkit::SuperPacket& packet) {
    return static_cast<const std::uint8_t*>(packet.head().iov_base) + sizeof(labkit::OffloadHeader);
}

labkit::OffloadHeader offload(labkit::SuperPacket& packet) {
    labkit::OffloadHeader header;
    std::memcpy(&header, packet.head().iov_base, sizeof header);
    return header;
}

iovec view(std::vector<std::uint8_t>& frame) { return {frame.data(), frame.size()}; }

}  // namespace

CASE(lengths_and_checksums_span_all_segments) {
    std::vector<std::uint8_t> frame = udp_frame(60);
    labkit::SuperPacket packet(view(frame), 0);
    for (const std::uint32_t segments : {64U, 7U, 2U, 64U}) {
        packet.set_segments(segments);
        const std::uint8_t* ip = headers(packet) + 14;
        EQUAL(word(ip + 2), 28 + 18 * segments);
        EQUAL(sum(ip, 20), 0xffffU);
        EQUAL(word(ip + 24), 8 + 18 * segments);
        EQUAL(word(ip + 26), (sum(ip + 12, 8) + 17 + 8 + 18 * segments) % 0xffff);
        EQUAL(int{offload(packet).gso_type}, 5);
        EQUAL(int{offload(packet).segment_bytes}, 18);
        EQUAL(int{offload(packet).header_bytes}, 42);
    }
}

CASE(single_segment_is_no_super_packet) {
    std::vector<std::uint8_t> frame = udp_frame(60);
    labkit::SuperPacket packet(view(frame), 0);
    packet.set_segments(1);
    EQUAL(int{offload(packet).gso_type}, 0);
    EQUAL(int{offload(packet).segment_bytes}, 0);
    EQUAL(int{offload(packet).checksum_from}, 34);
}

CASE(ip_packet_holds_so_many_segments) {
    std::vector<std::uint8_t> frame = udp_frame(1514);
    EQUAL(labkit::SuperPacket(view(frame), 0).most_segments(), 44U);
}

CASE(frames_of_any_bytes_are_taken_or_refused_within_their_bounds) {
    std::mt19937 random(20240302);
    int taken = 0;
    for (int round = 0; round < 20'000; ++round) {
        std::vector<std::uint8_t> frame = udp_frame(43 + random() % 80);
        for (auto changes = random() % 3; changes > 0; --changes)
            frame[random() % frame.size()] = static_cast<std::uint8_t>(random());
        frame.resize(random() % 4 == 0 ? random() % frame.size() : frame.size());
        frame.shrink_to_fit();
        try {
            labkit::SuperPacket packet(view(frame), 0);
            packet.set_segments(2);
            ++taken;
        } catch (const std::invalid_argument&) {
            continue;
        }
    }
    CLAIM(taken > 2'000 && taken < 19'000);
}
