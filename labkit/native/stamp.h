// pktgen's header at the start of a UDP payload: magic, running sequence, time (net/core/pktgen.c, struct
// pktgen_hdr), so that whatever reads pktgen's frames reads ours.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "frame_table.h"
#include "wire_words.h"

namespace labkit {

constexpr std::uint32_t kStampMagic = 0xbe9be955;
constexpr std::size_t kStampBytes = 16;

// Where a frame takes its stamp. `sum` is the ones' complement sum of all that the UDP checksum covers but
// the stamp, so that stamps can be written over one another and over the payload that was there first.
struct StampPlace {
    std::uint32_t payload_at = 0;  // the UDP checksum lies two bytes before it
    std::uint32_t sum = 0;
    bool summed = false;  // a checksum of 0 says that there is none, and stays
};

// What is written: numbers of 32 bits, as pktgen has them; the sequence starts again after 4294967295.
struct Stamp {
    std::uint32_t sequence = 0;
    std::uint32_t seconds = 0;
    std::uint32_t microseconds = 0;
};

// The stamp of attempt `sequence` at `realtime_ns`, CLOCK_REALTIME.
inline Stamp stamp_of(std::uint64_t sequence, std::int64_t realtime_ns) {
    const auto microseconds = static_cast<std::uint64_t>(realtime_ns) / 1'000;
    return {static_cast<std::uint32_t>(sequence), static_cast<std::uint32_t>(microseconds / 1'000'000),
            static_cast<std::uint32_t>(microseconds % 1'000'000)};
}

// Finds the place behind any VLAN tags and IPv4 options. Throws std::invalid_argument, naming frame `index`
// and the bytes it needs, for anything but UDP over IPv4 or IPv6 with a payload that holds a stamp.
StampPlace stamp_place(iovec frame, std::size_t index);

// Writes a stamp at the start of a payload.
inline void write_stamp_at(std::uint8_t* at, const Stamp& stamp) {
    set_long_word(at, kStampMagic);
    set_long_word(at + 4, stamp.sequence);
    set_long_word(at + 8, stamp.seconds);
    set_long_word(at + 12, stamp.microseconds);
}

// Writes a stamp and the checksum that goes with it: as right, or as wrong, as the frame's was (RFC 1624,
// equation 3). A result of 0 goes out as ffff (RFC 768).
inline void write_stamp(std::uint8_t* frame, const StampPlace& place, const Stamp& stamp) {
    std::uint8_t* at = frame + place.payload_at;
    write_stamp_at(at, stamp);
    if (!place.summed) return;
    std::uint32_t sum = place.sum + (kStampMagic >> 16) + (kStampMagic & 0xffff);
    for (const std::uint32_t value : {stamp.sequence, stamp.seconds, stamp.microseconds})
        sum += (value >> 16) + (value & 0xffff);
    const std::uint32_t checksum = ~folded(sum) & 0xffff;
    set_word(at - 2, checksum != 0 ? checksum : 0xffff);
}

// The stamps of a run, a batch at a time; the loop says when a batch begins, the sender which frame it fills.
class Stamper {
  public:
    // Throws as stamp_place() does, for the first frame of the table that takes no stamp.
    explicit Stamper(const FrameTable& table);

    // The next frame is attempt `sequence` at `realtime_ns`, each behind it `frame_ns` later.
    void begin(std::uint64_t sequence, std::int64_t realtime_ns, double frame_ns) {
        sequence_ = sequence;
        realtime_ns_ = realtime_ns;
        frame_ns_ = frame_ns;
    }

    // Stamps `frame`, which holds the bytes of the table's frame `index` and lies `ahead` behind the batch's
    // first.
    void write(std::uint8_t* frame, std::size_t index, std::uint32_t ahead) const {
        write_stamp(frame, places_[index], stamp(ahead));
    }

    // Of a payload alone, whose checksum is somebody else's to fill in.
    void write_payload(std::uint8_t* payload, std::uint32_t ahead) const {
        write_stamp_at(payload, stamp(ahead));
    }

  private:
    Stamp stamp(std::uint32_t ahead) const {
        return stamp_of(sequence_ + ahead, realtime_ns_ + static_cast<std::int64_t>(ahead * frame_ns_));
    }

    std::vector<StampPlace> places_;
    std::uint64_t sequence_ = 0;
    std::int64_t realtime_ns_ = 0;
    double frame_ns_ = 0;
};

}  // namespace labkit
