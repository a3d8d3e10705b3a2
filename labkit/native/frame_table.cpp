#include "frame_table.h"

#include <stdexcept>
#include <string>
#include <utility>

namespace labkit {

FrameTable::FrameTable(const std::uint8_t* block, std::size_t block_bytes, std::vector<std::uint64_t> offsets,
                       std::vector<std::uint32_t> lengths)
    : offsets_(std::move(offsets)), lengths_(std::move(lengths)) {
    if (offsets_.size() != lengths_.size()) {
        throw std::invalid_argument("frame table: " + std::to_string(offsets_.size()) + " offsets for " +
                                    std::to_string(lengths_.size()) + " lengths");
    }
    if (offsets_.empty()) throw std::invalid_argument("frame table: no frame");
    for (std::size_t i = 0; i < offsets_.size(); ++i) {
        // in this order nothing overflows, whatever the offset
        if (offsets_[i] > block_bytes || lengths_[i] > block_bytes - offsets_[i]) {
            throw std::invalid_argument("frame table: frame " + std::to_string(i) + " (" +
                                        std::to_string(lengths_[i]) + " bytes at " +
                                        std::to_string(offsets_[i]) + ") ends behind the block's " +
                                        std::to_string(block_bytes) + " bytes");
        }
    }
    block_.assign(block, block + block_bytes);
}

}  // namespace labkit
