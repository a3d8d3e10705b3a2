// The loop that every socket engine runs. How frames reach the kernel (Sender) and what time it is (Clock)
// are template arguments: inlined in the engines, played by a fake kernel in the tests.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <limits>
#include <optional>

#include "affinity.h"
#include "clock.h"
#include "pacing.h"
#include "socket.h"
#include "stamp.h"
#include "timer_slack.h"
#include "tx.h"

namespace labkit {

// What a call returned: frames taken, or the errno and how many frames it refused with it.
struct Taken {
    std::uint32_t frames;
    int error;
    std::uint32_t calls = 1;  // system calls; none where a ring was full
};

// Frames between two looks at clock and stop flag when nothing paces the loop: 80 us on a veth pair.
constexpr std::uint32_t kLookFrames = 64;

// The device or the socket is gone, or this process may not send: no later frame can fare better.
inline bool is_fatal(int error) {
    return error == ENETDOWN || error == ENXIO || error == ENODEV || error == EBADF || error == EPERM;
}

template <class Sender, class Clock>
class TxLoop {
  public:
    TxLoop(Sender& sender, Clock& clock, std::size_t table_frames, const TxConfig& config,
           const StopFlag& stop, Progress& progress, TxReport& report, Stamper* stamper = nullptr)
        : sender_(sender),
          clock_(clock),
          table_frames_(table_frames),
          batch_(config.batch),
          left_(config.count.value_or(std::numeric_limits<std::uint64_t>::max())),
          stop_(stop),
          progress_(progress),
          report_(report),
          stamper_(stamper) {
        report_.paced = config.rate_pps.has_value();
        report_.start_ns = clock_.now_ns();
        start_date_ns_ = clock_.date_ns();
        if (config.rate_pps) pacer_.emplace(*config.rate_pps, report_.start_ns, batch_, config.even);
        if (pacer_) progress_.pace(report_.start_ns, pacer_->frame_ns());
        if (config.duration_ns)  // what no clock reaches is no deadline
            deadline_ns_ = report_.start_ns + std::min(*config.duration_ns, deadline_ns_ - report_.start_ns);
    }

    void run() {
        report_.end_ns = report_.start_ns;
        report_.ended_by = pacer_ ? paced() : unpaced();
        progress_.store(report_.sent, report_.refused);
    }

  private:
    EndedBy unpaced() {
        EndedBy ended = EndedBy::kCount;
        for (std::uint32_t since_look = kLookFrames; left_ > 0;) {
            if (since_look >= kLookFrames) {
                since_look = 0;
                progress_.store(report_.sent, report_.refused);
                if (look(ended)) break;
            }
            // EINTR and EAGAIN (the send time-out) moved nothing: look at once
            const std::uint32_t moved = attempt(batch_);
            since_look += moved > 0 ? moved : kLookFrames;
            if (report_.fatal_errno) {
                ended = EndedBy::kError;
                break;
            }
        }
        report_.end_ns = clock_.now_ns();
        return ended;
    }

    EndedBy paced() {
        while (left_ > 0) {
            const bool go = wait_until(clock_, std::min(pacer_->due_ns(), deadline_ns_), stop_);
            if (!go) return at_end(EndedBy::kStop);
            const std::int64_t now_ns = clock_.now_ns();
            if (pacer_->due_ns() >= deadline_ns_ || now_ns >= deadline_ns_) return at_end(EndedBy::kDuration);
            const std::uint32_t moved = due_call(now_ns);
            report_.end_ns = clock_.now_ns();
            if (report_.fatal_errno) return EndedBy::kError;
            pacer_->took(moved, report_.end_ns);
            progress_.store(report_.sent, report_.refused);
        }
        wait_until(clock_, std::min(pacer_->due_ns(), deadline_ns_), stop_);
        return at_end(EndedBy::kCount);
    }

    // The last frame takes its slot like every other: 10 frames at 10 a second last a second, not 0.9.
    EndedBy at_end(EndedBy ended) {
        report_.end_ns = clock_.now_ns();
        return ended;
    }

    std::uint32_t due_call(std::int64_t now_ns) {
        if (call_ns_) report_.gaps.add(static_cast<std::uint64_t>(now_ns - *call_ns_));
        call_ns_ = now_ns;
        const std::uint64_t sent = report_.sent;
        const std::uint32_t moved = attempt(pacer_->burst_before(deadline_ns_));
        report_.burst_frames =
            std::max(report_.burst_frames, static_cast<std::uint32_t>(report_.sent - sent));
        return moved;
    }

    bool look(EndedBy& ended) {
        if (stop_.is_set()) {
            ended = EndedBy::kStop;
        } else if (clock_.now_ns() >= deadline_ns_) {
            ended = EndedBy::kDuration;
        } else {
            return false;
        }
        return true;
    }

    // One call, from the next unsent frame; returns how many frames are done with, sent or refused.
    std::uint32_t attempt(std::uint32_t most) {
        const auto asked = static_cast<std::uint32_t>(std::min<std::uint64_t>(most, left_));
        if (stamper_ != nullptr) begin_stamps();
        const Taken taken = sender_.call(next_, asked);
        report_.calls += taken.calls;
        if (taken.error == 0) {
            report_.sent += taken.frames;
            report_.partial_returns += taken.frames < asked ? 1 : 0;
            return advance(taken.frames);
        }
        if (taken.error == EINTR || taken.error == EAGAIN) return 0;
        if (is_fatal(taken.error)) {
            report_.fatal_errno = taken.error;
            return 0;
        }
        report_.refused += taken.frames;
        report_.refused_by_errno[taken.error] += taken.frames;
        return advance(taken.frames);
    }

    // Paced frames carry the time at which they are due, so that who receives them sees a late sender.
    void begin_stamps() {
        const std::uint64_t attempt = report_.sent + report_.refused;
        if (pacer_) {
            const double due_after_ns = static_cast<double>(attempt) * pacer_->frame_ns();
            stamper_->begin(attempt, start_date_ns_ + static_cast<std::int64_t>(due_after_ns),
                            pacer_->frame_ns());
        } else {
            stamper_->begin(attempt, clock_.date_ns(), 0);
        }
    }

    std::uint32_t advance(std::uint32_t frames) {
        left_ -= frames;
        next_ += frames;
        while (next_ >= table_frames_) next_ -= table_frames_;
        return frames;
    }

    Sender& sender_;
    Clock& clock_;
    const std::size_t table_frames_;
    const std::uint32_t batch_;
    std::uint64_t left_;
    const StopFlag& stop_;
    Progress& progress_;
    TxReport& report_;
    Stamper* const stamper_;
    std::int64_t start_date_ns_ = 0;
    std::size_t next_ = 0;
    std::int64_t deadline_ns_ = std::numeric_limits<std::int64_t>::max();
    std::optional<Pacer> pacer_;
    std::optional<std::int64_t> call_ns_;  // start of the last call of a paced run
};

// Pins the thread, runs the loop on the real clock, and adds what it cost.
template <class Socket, class Sender>
TxReport run_pinned(const Socket& socket, Sender& sender, const FrameTable& table, const TxConfig& config,
                    const StopFlag& stop, Progress& progress, Stamper* stamper = nullptr) {
    const CpuPin pin(config.cpu);
    const TimerSlack slack(config.rate_pps && *config.rate_pps < kEvenPps);
    TxReport report;
    report.qdisc_bypass = socket.qdisc_bypass();
    const std::int64_t switches = involuntary_switches();
    const std::int64_t cpu_ns = thread_cpu_ns();
    SystemClock clock;
    TxLoop<Sender, SystemClock>(sender, clock, table.size(), config, stop, progress, report, stamper).run();
    report.cpu_ns = thread_cpu_ns() - cpu_ns;
    report.involuntary_switches = involuntary_switches() - switches;
    return report;
}

}  // namespace labkit
