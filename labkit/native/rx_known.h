// Tells the frames of a table from others, and whole ones from corrupted ones.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "frame_table.h"
#include "rx_frame.h"
#include "rx_sequence.h"

namespace labkit {

// What an arriving frame is held against.
struct RxCheck {
    bool addresses = true;  // a frame whose MAC addresses and type no frame of the table has is foreign
    bool content = false;   // the sender sends the table's frames in order and as they are
    bool numbered = false;  // each carries pktgen's header; number k is frame k % size of the table
    std::uint32_t first_number = 0;
};

enum class Verdict { kForeign, kCorrupted, kGood };

struct Judged {
    Verdict verdict;
    std::int64_t place = -1;  // of a numbered frame that is good
};

// A frame as it was sent, tags included.
struct SentBytes {
    const std::uint8_t* bytes;
    std::size_t captured_bytes;
    std::size_t frame_bytes;
    bool unsummed = false;
};

// Whether frame after frame of the table carries pktgen's header with the numbers 0, 1, 2, ...
bool numbers_itself(const FrameTable& table);

class KnownFrames {
  public:
    // Throws std::invalid_argument when frames are to be numbered and one has no room for pktgen's header.
    KnownFrames(const FrameTable& table, const RxCheck& check);

    Judged judge(const SentBytes& frame, const SequenceTracker& tracker);

    std::size_t longest() const { return longest_; }

  private:
    using Head = std::array<std::uint8_t, kAddressBytes + 2>;

    bool is_ours(const std::uint8_t* bytes);
    Judged numbered(const SentBytes& frame, const SequenceTracker& tracker) const;
    Judged unnumbered(const SentBytes& frame);
    bool equals(const SentBytes& frame, std::size_t index) const;
    bool same_length(std::size_t arrived, std::size_t index) const;
    bool is_frame_of(std::size_t index, const SentBytes& frame, const UdpPlace& place) const;

    const FrameTable& table_;
    const RxCheck check_;
    bool sums_hold_ = true;    // the table's UDP checksums; what was wrong from the first stays wrong
    std::vector<Head> heads_;  // sorted
    std::size_t last_head_ = 0;
    std::unordered_map<std::uint64_t, std::uint32_t> by_hash_;
    std::vector<std::size_t> padded_lengths_;  // of frames that a device makes longer
    std::size_t expected_ = 0;
    std::size_t longest_ = 0;
};

}  // namespace labkit
