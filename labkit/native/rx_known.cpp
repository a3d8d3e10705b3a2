#include "rx_known.h"

#include <linux/if_ether.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace labkit {
namespace {

const std::uint8_t* bytes_of(iovec frame) { return static_cast<const std::uint8_t*>(frame.iov_base); }

// FNV-1a: only what is not the frame expected next is looked up.
std::uint64_t hash(const std::uint8_t* bytes, std::size_t number) {
    std::uint64_t value = 0xcbf29ce484222325;
    for (std::size_t i = 0; i < number; ++i) value = (value ^ bytes[i]) * 0x100000001b3;
    return value;
}

}  // namespace

bool numbers_itself(const FrameTable& table) {
    for (std::size_t i = 0; i < table.size(); ++i) {
        const iovec frame = table.frame(i);
        const auto place = udp_place(bytes_of(frame), frame.iov_len);
        if (!place || !place->holds_stamp()) return false;
        const std::uint8_t* const header = bytes_of(frame) + place->payload_at();
        if (long_word(header) != kStampMagic || long_word(header + 4) != i) return false;
    }
    return true;
}

KnownFrames::KnownFrames(const FrameTable& table, const RxCheck& check) : table_(table), check_(check) {
    for (std::size_t i = 0; i < table.size(); ++i) {
        const iovec frame = table.frame(i);
        longest_ = std::max(longest_, frame.iov_len);
        if (frame.iov_len >= sizeof(Head))
            std::memcpy(heads_.emplace_back().data(), frame.iov_base, sizeof(Head));
        const auto place = check.numbered ? udp_place(bytes_of(frame), frame.iov_len) : std::nullopt;
        if (check.numbered && !(place && place->holds_stamp())) {
            throw std::invalid_argument("frame " + std::to_string(i) +
                                        " has no room for pktgen's header in a UDP payload, so that nobody "
                                        "can tell what was lost");
        }
        sums_hold_ = sums_hold_ && (!place || udp_checksum_holds(bytes_of(frame), *place));
        if (check.numbered || !check.content) continue;
        by_hash_.emplace(hash(bytes_of(frame), frame.iov_len), static_cast<std::uint32_t>(i));
        if (frame.iov_len < ETH_ZLEN) padded_lengths_.push_back(frame.iov_len);
    }
    std::sort(heads_.begin(), heads_.end());
    heads_.erase(std::unique(heads_.begin(), heads_.end()), heads_.end());
    std::sort(padded_lengths_.begin(), padded_lengths_.end());
    padded_lengths_.erase(std::unique(padded_lengths_.begin(), padded_lengths_.end()), padded_lengths_.end());
}

Judged KnownFrames::judge(const SentBytes& frame, const SequenceTracker& tracker) {
    if (check_.addresses && (frame.captured_bytes < sizeof(Head) || !is_ours(frame.bytes))) {
        return {Verdict::kForeign};
    }
    if (check_.numbered) return numbered(frame, tracker);
    return check_.content ? unnumbered(frame) : Judged{Verdict::kGood};
}

bool KnownFrames::is_ours(const std::uint8_t* bytes) {
    if (heads_.empty()) return false;
    if (std::memcmp(heads_[last_head_].data(), bytes, sizeof(Head)) == 0) return true;
    Head head;
    std::memcpy(head.data(), bytes, sizeof head);
    const auto found = std::lower_bound(heads_.begin(), heads_.end(), head);
    if (found == heads_.end() || *found != head) return false;
    last_head_ = static_cast<std::size_t>(found - heads_.begin());
    return true;
}

Judged KnownFrames::numbered(const SentBytes& frame, const SequenceTracker& tracker) const {
    if (frame.captured_bytes < frame.frame_bytes) return {Verdict::kCorrupted};
    const auto place = udp_place(frame.bytes, frame.frame_bytes);
    if (!place || !place->holds_stamp()) return {Verdict::kCorrupted};
    const std::uint8_t* const header = frame.bytes + place->payload_at();
    if (long_word(header) != kStampMagic) return {Verdict::kCorrupted};
    const std::int64_t number = tracker.place(long_word(header + 4));
    if (number < 0) return {Verdict::kCorrupted};
    const auto index = static_cast<std::size_t>(number) % table_.size();
    if (check_.content && !is_frame_of(index, frame, *place)) return {Verdict::kCorrupted};
    if (sums_hold_ && !frame.unsummed && !udp_checksum_holds(frame.bytes, *place)) {
        return {Verdict::kCorrupted};
    }
    return {Verdict::kGood, number};
}

// All bytes but pktgen's header and the UDP checksum over it, which are written as a frame leaves.
bool KnownFrames::is_frame_of(std::size_t index, const SentBytes& frame, const UdpPlace& place) const {
    const iovec sent = table_.frame(index);
    const std::uint8_t* const wanted = bytes_of(sent);
    const std::size_t sum_at = place.udp_at + kUdpChecksumAt;
    const std::size_t rest_at = place.payload_at() + kStampBytes;
    // the header's place was read from the frame itself: it need not lie within the table's
    if (!same_length(frame.frame_bytes, index) || rest_at > sent.iov_len) return false;
    return std::memcmp(frame.bytes, wanted, sum_at) == 0 &&
           std::memcmp(frame.bytes + rest_at, wanted + rest_at, sent.iov_len - rest_at) == 0;
}

// Frames of the table are expected one after the other, so that most are found at once.
Judged KnownFrames::unnumbered(const SentBytes& frame) {
    if (frame.captured_bytes < frame.frame_bytes) return {Verdict::kCorrupted};
    std::size_t index = expected_;
    if (!equals(frame, index)) {
        auto found = by_hash_.find(hash(frame.bytes, frame.frame_bytes));
        for (std::size_t i = 0; found == by_hash_.end() && i < padded_lengths_.size(); ++i) {
            if (frame.frame_bytes == ETH_ZLEN) found = by_hash_.find(hash(frame.bytes, padded_lengths_[i]));
        }
        if (found == by_hash_.end() || !equals(frame, found->second)) return {Verdict::kCorrupted};
        index = found->second;
    }
    expected_ = index + 1 < table_.size() ? index + 1 : 0;
    return {Verdict::kGood};
}

bool KnownFrames::equals(const SentBytes& frame, std::size_t index) const {
    const iovec sent = table_.frame(index);
    return same_length(frame.frame_bytes, index) &&
           std::memcmp(frame.bytes, sent.iov_base, sent.iov_len) == 0;
}

// A device pads what is shorter than Ethernet's shortest frame.
bool KnownFrames::same_length(std::size_t arrived, std::size_t index) const {
    const std::size_t sent = table_.frame(index).iov_len;
    return arrived == sent || (arrived == ETH_ZLEN && sent < ETH_ZLEN);
}

}  // namespace labkit
