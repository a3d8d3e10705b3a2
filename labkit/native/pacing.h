// When the next batch may leave: a token bucket that is asked once a batch.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "stop_flag.h"

namespace labkit {

// Below it frames leave one by one where they can, each at its own time; above it a call that waits for every
// frame would cost more than the gap that it keeps.
constexpr double kEvenPps = 50'000;

class Pacer {
  public:
    // Frame k is due k / rate_pps seconds after start_ns. Throws std::invalid_argument for a rate that is
    // not a positive number. `even`: below kEvenPps frames leave one by one.
    Pacer(double rate_pps, std::int64_t start_ns, std::uint32_t batch, bool even = true);

    // Frames that may leave together: one, or the batch, but not more than a millisecond of the rate (at
    // least one), so that 10.5 a second for 10 s are 105 frames at any batch.
    std::uint32_t burst() const { return burst_; }

    // The same, without frames that are due only at `deadline_ns` or later: a run ends with the rate's count.
    std::uint32_t burst_before(std::int64_t deadline_ns) const {
        const double due =
            std::ceil((static_cast<double>(deadline_ns - start_ns_) - due_after_ns_) / frame_ns_);
        return due < burst_ ? std::max(1U, static_cast<std::uint32_t>(due)) : burst_;
    }

    // When the next frame is due.
    std::int64_t due_ns() const { return start_ns_ + static_cast<std::int64_t>(due_after_ns_); }

    double frame_ns() const { return frame_ns_; }

    // `frames` were attempted; `now_ns` is just after the call. A sender that fell behind catches up with the
    // bucket's depth at most, not with a burst as long as its delay.
    void took(std::uint32_t frames, std::int64_t now_ns);

  private:
    std::int64_t start_ns_;
    double frame_ns_;
    double depth_ns_;
    double due_after_ns_ = 0;
    std::uint32_t burst_;
};

// Longest sleep between two looks at the stop flag.
constexpr std::int64_t kLookNs = 5'000'000;

// The last part of a gap is spun: a core that sleeps takes some tens of microseconds to wake.
constexpr std::int64_t kSpinNs = 100'000;

// Waits for `target_ns`; false when the stop flag came first.
template <class Clock>
bool wait_until(Clock& clock, std::int64_t target_ns, const StopFlag& stop) {
    for (std::int64_t now = clock.now_ns(); now < target_ns; now = clock.now_ns()) {
        if (stop.is_set()) return false;
        if (target_ns - now > kSpinNs) {
            clock.sleep_until(std::min(target_ns - kSpinNs, now + kLookNs));
        } else {
            clock.spin();
        }
    }
    return !stop.is_set();
}

}  // namespace labkit
