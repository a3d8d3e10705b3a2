#include "frame_rows.h"

#include <linux/if_ether.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "wire_words.h"

namespace labkit {
namespace {

constexpr std::size_t kTagBytes = 4;

const std::uint8_t* bytes_of(const iovec& frame) { return static_cast<const std::uint8_t*>(frame.iov_base); }

// How many bytes of a frame whoever takes its VLAN tags off moves or overwrites, in the very page that comes
// back for a later frame (net/core/skbuff.c, skb_reorder_vlan_header): those before the type behind the tags.
std::size_t untagging_moves(const iovec& frame) {
    std::size_t end = 2 * ETH_ALEN;
    while (end + kTagBytes <= frame.iov_len) {
        const std::uint16_t type = word(bytes_of(frame) + end);
        if (type != ETH_P_8021Q && type != ETH_P_8021AD) break;
        end += kTagBytes;
    }
    return end > 2 * ETH_ALEN ? end : 0;
}

std::vector<bool> rewritten(const FrameTable& table) {
    const iovec first = table.frame(0);
    std::vector<bool> differ(first.iov_len);
    for (std::size_t i = 1; i < table.size(); ++i) {
        const iovec frame = table.frame(i);
        if (frame.iov_len != first.iov_len) {
            throw std::invalid_argument(
                "frame " + std::to_string(i) + " has " + std::to_string(frame.iov_len) +
                " bytes and frame 0 has " + std::to_string(first.iov_len) +
                "; live frames are all of one length, take engine 'af_xdp' for others");
        }
        if (std::memcmp(bytes_of(frame), bytes_of(first), first.iov_len) == 0) continue;
        for (std::size_t at = 0; at < first.iov_len; ++at)
            if (bytes_of(frame)[at] != bytes_of(first)[at]) differ[at] = true;
    }
    for (std::size_t i = 0; i < table.size(); ++i)
        std::fill_n(differ.begin(), untagging_moves(table.frame(i)), true);
    return differ;
}

// How many bytes to store from `at` on: as many as reach the last differing byte of the next eight.
std::uint32_t width(const std::vector<bool>& differ, std::size_t at) {
    const auto any = [&](std::size_t from, std::size_t to) {
        for (std::size_t i = at + from; i < std::min(at + to, differ.size()); ++i)
            if (differ[i]) return true;
        return false;
    };
    if (any(4, 8)) return 8;
    if (any(2, 4)) return 4;
    return any(1, 2) ? 2 : 1;
}

}  // namespace

FrameRows::FrameRows(const FrameTable& table, const std::vector<std::uint32_t>& column,
                     std::size_t most_bytes)
    : frame_bytes_(static_cast<std::uint32_t>(table.frame(0).iov_len)) {
    std::uint32_t end = find_spans(rewritten(table));
    column_at_ = (end + 3) / 4 * 4;
    if (!column.empty()) end = column_at_ + static_cast<std::uint32_t>(sizeof(std::uint32_t));
    stride_ = (end + 7) / 8 * 8;
    if (stride_ > 0 && table.size() > most_bytes / stride_) {
        throw std::invalid_argument(std::to_string(table.size()) + " frames of which each has " +
                                    std::to_string(stride_) + " bytes of its own are more than the " +
                                    std::to_string(most_bytes) +
                                    " bytes that a program reaches; vary fewer fields, or take engine "
                                    "'af_xdp'");
    }
    rows_.resize(table.size() * stride_);
    for (std::size_t i = 0; i < table.size() && stride_ > 0; ++i) {
        std::uint8_t* row = &rows_[i * stride_];
        const std::uint8_t* frame = bytes_of(table.frame(i));
        for (const Span& span : spans_) std::memcpy(row + span.row_at, frame + span.frame_at, span.bytes);
        if (!column.empty()) std::memcpy(row + column_at_, &column[i], sizeof column[i]);
    }
}

// Returns how many bytes of a row the spans fill.
std::uint32_t FrameRows::find_spans(const std::vector<bool>& differ) {
    for (std::size_t at = 0; at < differ.size();) {
        if (!differ[at]) {
            ++at;
            continue;
        }
        std::uint32_t bytes = width(differ, at);
        while (bytes > differ.size()) bytes /= 2;
        // a store that would reach behind the frame begins earlier: the bytes before are the frame's own too
        const std::size_t from = at + bytes <= differ.size() ? at : differ.size() - bytes;
        spans_.push_back({static_cast<std::uint32_t>(from), 0, bytes});
        at = from + bytes;
    }
    // widest first, so that each lies on a multiple of its size
    std::stable_sort(spans_.begin(), spans_.end(),
                     [](const Span& one, const Span& other) { return one.bytes > other.bytes; });
    std::uint32_t end = 0;
    for (Span& span : spans_) {
        span.row_at = end;
        end += span.bytes;
    }
    return end;
}

}  // namespace labkit
