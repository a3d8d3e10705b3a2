// A TX ring as driver and card share it. The card is no event: each descriptor carries the time of its last
// bit on the wire, worked out when the doorbell rings and read by the cleaner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim_config.h"

namespace labkit::sim {

class TxRing {
  public:
    explicit TxRing(const Config& config)
        : room_(config.tx_ring - config.stop_descriptors),
          wake_at_(config.tx_ring - config.wake_descriptors),
          write_back_(config.write_back) {
        std::uint64_t size = 1;
        while (size < config.tx_ring) size <<= 1;
        done_.resize(size);
        mask_ = size - 1;
    }

    std::uint64_t in_flight() const { return head_ - tail_; }
    // One descriptor always stays unused, so that a full ring differs from an empty one; the queue stops
    // when fewer than `stop_descriptors` others are free: at most ring - stop are in flight.
    std::uint64_t free_slots() const { return room_ - in_flight(); }
    bool wakes() const { return in_flight() < wake_at_; }
    bool empty() const { return head_ == tail_; }
    Ps first_done() const { return empty() ? kNever : done_[tail_ & mask_]; }
    // Last bit of the n-th frame in flight, n from 1.
    Ps done_of(std::uint64_t n) const {
        return n == 0 || in_flight() < n ? kNever : done_[(tail_ + n - 1) & mask_];
    }

    void post(Ps done) { done_[head_++ & mask_] = done; }

    // The timer's expiry writes back whatever is finished.
    void flush(Ps at) { visible_ = std::max(visible_, head_ - waiting(at)); }

    // Whether the cleaner at time `at` finds another finished descriptor: the card writes them back in
    // whole batches between two expiries.
    bool finished(Ps at) {
        if (tail_ < visible_) return true;
        const std::uint64_t last = tail_ - tail_ % write_back_ + write_back_ - 1;
        if (last >= head_ || done_[last & mask_] > at) return false;
        visible_ = last + 1;
        return true;
    }

    Ps take() { return done_[tail_++ & mask_]; }

    // Frames in flight whose last bit is still to come at `at`.
    std::uint32_t waiting(Ps at) const {
        std::uint64_t low = tail_, high = head_;
        while (low < high) {
            const std::uint64_t middle = low + (high - low) / 2;
            if (done_[middle & mask_] <= at) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return static_cast<std::uint32_t>(head_ - low);
    }

  private:
    std::uint64_t room_, wake_at_, write_back_;
    std::uint64_t head_ = 0, tail_ = 0, visible_ = 0, mask_ = 0;
    std::vector<Ps> done_;
};

}  // namespace labkit::sim
