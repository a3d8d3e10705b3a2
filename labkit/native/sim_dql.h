// Byte queue limits as the kernel keeps them (lib/dynamic_queue_limits.c, Linux 3.3 to 6.6): the smallest
// limit that never lets the queue run dry between two completions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim_config.h"

namespace labkit::sim {

class Dql {
  public:
    Dql(std::uint32_t least, std::uint32_t most, Ps hold) : least_(least), most_(most), hold_(hold) {}

    std::uint32_t limit() const { return static_cast<std::uint32_t>(limit_); }
    // Bytes queued and not yet completed, as the kernel's file inflight tells them (net/core/net-sysfs.c).
    std::uint64_t inflight() const { return static_cast<std::uint64_t>(queued_ - completed_); }

    void queued(std::uint64_t frames, std::uint32_t frame_bytes) {
        last_object_ = frame_bytes;
        queued_ += static_cast<std::int64_t>(frames) * frame_bytes;
    }

    // Whether another frame may be queued: the stack stops a queue once this is false.
    bool has_room() const { return adjusted_ >= queued_; }
    // Frames until then, where there is room: the one that goes beyond the limit is still taken.
    std::uint64_t room(std::uint32_t frame_bytes) const {
        return static_cast<std::uint64_t>((adjusted_ - queued_) / frame_bytes) + 1;
    }

    void completed(std::int64_t bytes, Ps now) {
        const std::int64_t completed = completed_ + bytes;
        const std::int64_t over = positive(queued_ - completed_ - limit_);
        const std::int64_t in_progress = queued_ - completed;
        const bool was_in_progress = previous_queued_ != completed_;
        const bool previous_done = completed >= previous_queued_;
        std::int64_t limit = limit_;
        if ((over > 0 && in_progress == 0) || (previous_over_ > 0 && previous_done)) {
            // The queue starved while the limit held frames back: raise it by what it would have taken.
            limit += positive(completed - previous_queued_) + previous_over_;
            restart(now);
        } else if (in_progress != 0 && was_in_progress && !previous_done) {
            // Busy all the time: what was never needed is slack, and goes after the hold time.
            const std::int64_t unused = positive(limit + previous_over_ - 2 * bytes);
            const std::int64_t last = previous_over_ > 0 ? positive(previous_last_ - previous_over_) : 0;
            lowest_slack_ = std::min(lowest_slack_, std::max(unused, last));
            if (now > slack_start_ + hold_) {
                limit = positive(limit - lowest_slack_);
                restart(now);
            }
        }
        limit = std::min(std::max(limit, least_), most_);  // as the kernel's clamp where least > most
        previous_over_ = limit == limit_ ? over : 0;
        limit_ = limit;
        adjusted_ = limit + completed;
        previous_last_ = last_object_;
        completed_ = completed;
        previous_queued_ = queued_;
    }

  private:
    static std::int64_t positive(std::int64_t value) { return std::max<std::int64_t>(value, 0); }
    void restart(Ps now) {
        slack_start_ = now;
        lowest_slack_ = kNoSlack;
    }

    static constexpr std::int64_t kNoSlack = std::numeric_limits<std::uint32_t>::max();
    std::int64_t least_, most_;
    Ps hold_;
    std::int64_t limit_ = 0, adjusted_ = 0, queued_ = 0, completed_ = 0, last_object_ = 0;
    std::int64_t previous_queued_ = 0, previous_over_ = 0, previous_last_ = 0, lowest_slack_ = kNoSlack;
    Ps slack_start_ = 0;
};

}  // namespace labkit::sim
