// Which of numbered frames are new, late or there already: one pass, memory of a window.
//
// Reordered is as RFC 4737 (3.3) has it: a number smaller than the one expected next, which is the largest
// seen so far plus one. A number that came before is a duplicate, and nothing else besides.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace labkit {

class SequenceTracker {
  public:
    // Numbers behind the largest that are remembered. What comes later than that is reordered; whether it is
    // also a duplicate nobody knows any more, so that it counts as distinct and as beyond the window.
    static constexpr std::int64_t kWindow = 1 << 16;

    // Numbers of 32 bits, which may wrap; `first` is the one that was sent first.
    explicit SequenceTracker(std::uint32_t first) : first_(first), seen_(kWindow / 64) {}

    // How many frames were numbered before `number`: the place next to the one expected that it can mean.
    // Negative for a number before the first.
    std::int64_t place(std::uint32_t number) const {
        const std::uint32_t expected = first_ + static_cast<std::uint32_t>(next_);
        return next_ + static_cast<std::int32_t>(number - expected);
    }

    // Notes the frame of a place that is not negative.
    void add(std::int64_t place) {
        if (place >= next_) {
            forget(next_, place);
            next_ = place + 1;
            ++distinct_;
        } else if (next_ - place > kWindow) {
            ++beyond_window_;
            ++reordered_;
            ++distinct_;
            return;
        } else if (bit(place)) {
            ++duplicates_;
            return;
        } else {
            ++reordered_;
            ++distinct_;
        }
        word(place) |= mask(place);
    }

    std::uint64_t distinct() const { return distinct_; }
    std::uint64_t duplicates() const { return duplicates_; }
    std::uint64_t reordered() const { return reordered_; }
    std::uint64_t beyond_window() const { return beyond_window_; }

  private:
    static std::uint64_t mask(std::int64_t place) { return std::uint64_t{1} << (place % 64); }
    std::uint64_t& word(std::int64_t place) { return seen_[static_cast<std::size_t>(place % kWindow) / 64]; }
    bool bit(std::int64_t place) { return (word(place) & mask(place)) != 0; }

    // Places from `begin` up to `end` itself enter the window unseen.
    void forget(std::int64_t begin, std::int64_t end) {
        if (end - begin >= kWindow) {
            std::fill(seen_.begin(), seen_.end(), 0);
            return;
        }
        for (std::int64_t place = begin; place <= end; ++place) word(place) &= ~mask(place);
    }

    const std::uint32_t first_;
    std::vector<std::uint64_t> seen_;
    std::int64_t next_ = 0;
    std::uint64_t distinct_ = 0;
    std::uint64_t duplicates_ = 0;
    std::uint64_t reordered_ = 0;
    std::uint64_t beyond_window_ = 0;
};

}  // namespace labkit
