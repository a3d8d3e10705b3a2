// When the card raises an interrupt, and ixgbe's way of choosing the interval in its dynamic mode.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim_config.h"

namespace labkit::sim {

// What one poll has worked off in one direction.
struct Work {
    std::uint64_t packets = 0;
    std::uint64_t bytes = 0;
};

// ixgbe_update_itr and ixgbe_set_itr as they were from 2.6.35 to 3.17. The value is in the EITR register's
// form: quarter microseconds, of which the card counts whole steps of 2.048 us (bits 11:3). Each direction
// has a class of its own, by its bytes a microsecond; the slower interval of the two is what the vector gets.
class DynamicItr {
  public:
    static constexpr std::uint32_t kStart = 200;  // 20 000 interrupts/s, as ixgbe_set_coalesce leaves it

    std::uint32_t itr() const { return itr_; }
    Ps period() const { return static_cast<Ps>(itr_ >> 3) * 2'048'000; }

    // When a poll is over.
    void polled(const Work& tx, const Work& rx) {
        classify(tx_, tx);
        classify(rx_, rx);
        const Latency latency = std::max(tx_, rx_);
        const std::uint32_t target = latency == kLowest ? 40 : latency == kLow ? 200 : 500;
        if (target != itr_) itr_ = 10 * target * itr_ / (9 * target + itr_);
    }

  private:
    enum Latency { kLowest, kLow, kBulk };

    void classify(Latency& latency, const Work& work) const {
        if (work.packets == 0) return;
        const std::uint64_t speed = work.bytes / (itr_ >> 2);
        if (latency == kLowest) {
            if (speed > 10) latency = kLow;
        } else if (latency == kLow) {
            latency = speed > 20 ? kBulk : speed <= 10 ? kLowest : kLow;
        } else if (speed <= 20) {
            latency = kLow;
        }
    }

    Latency tx_ = kLowest, rx_ = kLowest;
    std::uint32_t itr_ = kStart;  // never below 40: the smoothing stops there
};

class Moderator {
  public:
    explicit Moderator(const ModerationConfig& config) : config_(config) {}

    bool is_hold_off() const { return config_.kind == Moderation::kHoldOff; }
    std::uint32_t frames() const { return config_.frames; }
    std::uint32_t itr() const { return config_.kind == Moderation::kDynamic ? dynamic_.itr() : 0; }

    // Time of the interrupt for events of which the first comes at `first` and the `frames`-th at `last`.
    Ps fires_at(Ps first, Ps last) const {
        if (first == kNever) return kNever;
        if (is_hold_off()) return std::max(expiry_, std::min(first + config_.period, last));
        return std::max(expiry_, first);
    }

    void fired(Ps at) {
        if (!is_hold_off()) expiry_ = at + period();
    }

    // Nobody heard it; the cause stays, and the card tries again an interval later, `least` at the soonest.
    void lost(Ps at, Ps least) { expiry_ = at + std::max(period(), least); }

    void polled(const Work& tx, const Work& rx) {
        if (config_.kind == Moderation::kDynamic) dynamic_.polled(tx, rx);
    }

  private:
    Ps period() const { return config_.kind == Moderation::kDynamic ? dynamic_.period() : config_.period; }

    ModerationConfig config_;
    DynamicItr dynamic_;
    Ps expiry_ = 0;
};

}  // namespace labkit::sim
