// When the card raises an interrupt, and ixgbe's way of choosing the interval in its dynamic mode.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim_config.h"

namespace labkit::sim {

// ixgbe_update_itr and ixgbe_set_itr as they were from 2.6.35 to 3.17. The value is in the EITR register's
// form: quarter microseconds, of which the card counts whole steps of 2.048 us (bits 11:3).
class DynamicItr {
  public:
    static constexpr std::uint32_t kStart = 200;  // 20 000 interrupts/s, as ixgbe_set_coalesce leaves it

    std::uint32_t itr() const { return itr_; }
    Ps period() const { return static_cast<Ps>(itr_ >> 3) * 2'048'000; }

    // After a poll that cleaned something: the driver's three classes by bytes a microsecond.
    void polled(std::uint64_t packets, std::uint64_t bytes) {
        const std::uint32_t usecs = itr_ >> 2;
        if (packets == 0 || usecs == 0) return;
        const std::uint64_t speed = bytes / usecs;
        if (latency_ == kLowest) {
            if (speed > 10) latency_ = kLow;
        } else if (latency_ == kLow) {
            latency_ = speed > 20 ? kBulk : speed <= 10 ? kLowest : kLow;
        } else if (speed <= 20) {
            latency_ = kLow;
        }
        const std::uint32_t target = latency_ == kLowest ? 40 : latency_ == kLow ? 200 : 500;
        if (target != itr_) itr_ = 10 * target * itr_ / (9 * target + itr_);
    }

  private:
    enum Latency { kLowest, kLow, kBulk };
    Latency latency_ = kLow;
    std::uint32_t itr_ = kStart;
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
        if (is_hold_off()) return std::min(first + config_.period, last);
        return std::max(expiry_, first);
    }

    void fired(Ps at) {
        expiry_ = at + (config_.kind == Moderation::kDynamic ? dynamic_.period() : config_.period);
    }

    void polled(std::uint64_t packets, std::uint64_t bytes) {
        if (config_.kind == Moderation::kDynamic) dynamic_.polled(packets, bytes);
    }

  private:
    ModerationConfig config_;
    DynamicItr dynamic_;
    Ps expiry_ = 0;
};

}  // namespace labkit::sim
