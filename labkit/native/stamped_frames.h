// A table's frames with bytes of their own, to be stamped as they leave.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "frame_table.h"
#include "stamp.h"

namespace labkit {

// The table and, behind it, its first batch - 1 frames again: wherever in the table a batch begins, it is one
// stretch of frames, none of which shares its bytes with another, as frames of the table may.
class StampedFrames {
  public:
    // Throws std::invalid_argument, as Stamper does.
    StampedFrames(const FrameTable& table, std::uint32_t batch)
        : table_frames_(table.size()), stamper_(table), frames_(table.size() + batch - 1) {
        std::size_t total = 0;
        for (std::size_t i = 0; i < frames_.size(); ++i) total += table.frame(i % table.size()).iov_len;
        block_.reserve(total);
        for (std::size_t i = 0; i < frames_.size(); ++i) {
            const iovec frame = table.frame(i % table.size());
            const auto* bytes = static_cast<const std::uint8_t*>(frame.iov_base);
            frames_[i] = {block_.data() + block_.size(), frame.iov_len};
            block_.insert(block_.end(), bytes, bytes + frame.iov_len);
        }
    }
    StampedFrames(const StampedFrames&) = delete;
    StampedFrames& operator=(const StampedFrames&) = delete;

    Stamper& stamper() { return stamper_; }
    // Frame `place` of the stretch; the kernel only reads through it.
    iovec& frame(std::size_t place) { return frames_[place]; }

    // Stamps a batch of `frames` from `first` on.
    void stamp(std::size_t first, std::uint32_t frames) {
        std::size_t index = first;
        for (std::uint32_t ahead = 0; ahead < frames; ++ahead, ++index) {
            if (index >= table_frames_) index = 0;
            stamper_.write(static_cast<std::uint8_t*>(frames_[first + ahead].iov_base), index, ahead);
        }
    }

  private:
    const std::size_t table_frames_;
    Stamper stamper_;
    std::vector<std::uint8_t> block_;  // reserved whole: it never moves
    std::vector<iovec> frames_;
};

}  // namespace labkit
