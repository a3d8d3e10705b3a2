// What arrives at a lane: frames of an open-loop stream, or acknowledgements of a TCP stream, each with its
// time, and how many of them found no descriptor.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "sim_config.h"

namespace labkit::sim {

class RxRing {
  public:
    RxRing(const Config& config, std::uint64_t seed)
        : capacity_(config.rx_ring), gap_(config.arrival_gap), poisson_(config.poisson), random_(seed) {
        std::uint64_t size = 1;
        while (size < std::uint64_t{config.rx_ring} + config.window) size <<= 1;
        arrivals_.resize(size);
        mask_ = size - 1;
        next_ = gap_ > 0 ? gap_ : kNever;
    }

    // Arrival of the n-th frame that was not taken yet, n from 1; kNever if none is on its way.
    Ps arrival_of(std::uint64_t n) {
        if (n == 0) return kNever;
        while (tail_ + n > head_ && next_ != kNever && head_ - tail_ < capacity_) accept();
        return tail_ + n > head_ ? kNever : arrivals_[(tail_ + n - 1) & mask_];
    }

    // Everything that comes until `at`; what finds the ring full is missed.
    void advance(Ps at) {
        while (next_ <= at) {
            if (head_ - tail_ < capacity_) {
                accept();
            } else {
                ++missed_;
                draw();
            }
        }
    }

    // A single frame that comes at `at`, not before any other one.
    void push(Ps at) { arrivals_[head_++ & mask_] = at; }

    // One that comes at `at` or up to `jitter` later, never before the one ahead of it.
    void push_late(Ps at, Ps jitter) {
        latest_ = std::max(latest_, at + static_cast<Ps>(uniform() * static_cast<double>(jitter)));
        push(latest_);
    }

    bool arrived(Ps at) {
        advance(at);
        return tail_ < head_ && arrivals_[tail_ & mask_] <= at;
    }
    Ps take() { return arrivals_[tail_++ & mask_]; }
    std::uint64_t missed() const { return missed_; }

  private:
    void accept() {
        push(next_);
        draw();
    }

    void draw() {
        Ps gap = gap_;
        if (poisson_) gap = static_cast<Ps>(-std::log(uniform()) * static_cast<double>(gap_));
        next_ += gap;
    }

    // 53 bits, never 0: the same stream on every machine, which the library's distributions are not
    double uniform() { return (static_cast<double>(random_() >> 11) + 0.5) * 0x1p-53; }

    std::uint64_t capacity_, mask_ = 0, head_ = 0, tail_ = 0, missed_ = 0;
    Ps gap_, next_ = kNever, latest_ = 0;
    bool poisson_;
    std::mt19937_64 random_;
    std::vector<Ps> arrivals_;
};

}  // namespace labkit::sim
