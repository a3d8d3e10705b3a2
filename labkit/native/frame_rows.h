// Which bytes of a recycled page a live frame has to write, and those bytes of each frame of a table as a
// row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "frame_table.h"

namespace labkit {

// `bytes` (1, 2, 4 or 8) of a frame from `frame_at`, which a row holds from `row_at`.
struct Span {
    std::uint32_t frame_at;
    std::uint32_t row_at;
    std::uint32_t bytes;
};

// The most bytes that rows may have: the verifier follows a pointer so far (kernel: BPF_MAX_VAR_OFF, 1 <<
// 29).
constexpr std::size_t kMostRowBytes = std::size_t{1} << 28;

class FrameRows {
  public:
    // `column`, where there is one, is a number of each frame that its row holds besides. Throws
    // std::invalid_argument, naming the frame, where lengths differ, and where rows are more than most_bytes.
    explicit FrameRows(const FrameTable& table, const std::vector<std::uint32_t>& column = {},
                       std::size_t most_bytes = kMostRowBytes);

    std::uint32_t frame_bytes() const { return frame_bytes_; }
    // Together they cover every byte in which two frames differ, and in tagged ones those that a receiver
    // moves when it takes the tags off; widest first, none where frames are alike and have no tag.
    const std::vector<Span>& spans() const { return spans_; }
    // Where the column's number lies in a row.
    std::uint32_t column_at() const { return column_at_; }
    // Bytes from one row to the next, a multiple of 8; 0 without spans and column.
    std::uint32_t stride() const { return stride_; }
    // Row after row, in the table's order.
    const std::vector<std::uint8_t>& rows() const { return rows_; }

  private:
    std::uint32_t find_spans(const std::vector<bool>& differ);

    std::uint32_t frame_bytes_;
    std::uint32_t column_at_ = 0;
    std::uint32_t stride_ = 0;
    std::vector<Span> spans_;
    std::vector<std::uint8_t> rows_;
};

}  // namespace labkit
