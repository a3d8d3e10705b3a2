// Frames ready to send: one block of bytes and where each frame lies in it.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace labkit {

class FrameTable {
  public:
    // Copies everything. Throws std::invalid_argument when there is no frame, when the numbers of offsets
    // and lengths differ, or when a frame reaches outside the block.
    FrameTable(const std::uint8_t* block, std::size_t block_bytes, std::vector<std::uint64_t> offsets,
               std::vector<std::uint32_t> lengths);

    std::size_t size() const { return offsets_.size(); }
    std::size_t block_bytes() const { return block_.size(); }

    // Frame `index` as the kernel wants it. The kernel only reads through it; iovec has no const form.
    iovec frame(std::size_t index) const {
        return {const_cast<std::uint8_t*>(block_.data() + offsets_[index]), lengths_[index]};
    }

  private:
    std::vector<std::uint8_t> block_;
    std::vector<std::uint64_t> offsets_;
    std::vector<std::uint32_t> lengths_;
};

}  // namespace labkit
