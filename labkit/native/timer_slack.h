// Timers of the calling thread that fire on time, for a while.
#pragma once

#include <sys/prctl.h>

namespace labkit {

// An ordinary thread's timer may fire 50 us late, so that the kernel can wake for several at once (man 2
// PR_SET_TIMERSLACK).
class TimerSlack {
  public:
    // Asks for a nanosecond, where `exact`; the kernel refuses none, and real-time threads have no slack.
    explicit TimerSlack(bool exact) : before_ns_(exact ? prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) : -1) {
        if (before_ns_ >= 0) prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
    }
    ~TimerSlack() {
        if (before_ns_ >= 0) prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(before_ns_), 0, 0, 0);
    }
    TimerSlack(const TimerSlack&) = delete;
    TimerSlack& operator=(const TimerSlack&) = delete;

  private:
    const int before_ns_;  // below 0: nothing was changed
};

}  // namespace labkit
