// One CPU and its queue pair: it sends, takes interrupts and cleans, or waits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "histogram.h"
#include "sim_config.h"
#include "sim_dql.h"
#include "sim_moderation.h"
#include "sim_rx_ring.h"
#include "sim_tx_ring.h"

namespace labkit::sim {

// What all lanes share.
struct Shared {
    Ps wire_free = 0;  // last bit of the last frame
    Ps line_free = 0;  // the cache line that every lane writes
    std::uint32_t line_owner = 0;
};

constexpr std::uint64_t kAckBytes = 66;  // an acknowledgement's frame, TCP timestamps included

// Whether a config needs more than one pktgen at full speed on its own: the rest is compiled out of its loop.
bool needs_everything(const Config& config);

template <bool kEverything>
class Lane {
  public:
    Lane(const Config& config, Shared& shared, std::uint32_t number);

    // Goes on until `limit`, or a little beyond: a burst, an interrupt and a poll are not cut. Waiting, which
    // no other lane can shorten, goes on until `end`.
    void run_until(Ps limit, Ps end);
    Ps now() const { return now_; }
    bool ended() const { return ended_; }
    bool carrier_lost() const { return carrier_lost_; }
    std::uint64_t count(Count what) const { return counts_[static_cast<std::size_t>(what)]; }
    const Dql& dql() const { return dql_; }
    const std::vector<TracePoint>& trace() const { return trace_; }
    const std::vector<std::uint64_t>& latency() const { return latency_.counts(); }
    // From here on is what counts.
    void begin();
    LaneReport report() const;

  private:
    std::uint64_t& at(Count what) { return counts_[static_cast<std::size_t>(what)]; }
    void add(Count what, Ps time) { at(what) += static_cast<std::uint64_t>(time); }

    // sim_lane_send.h
    void send(Ps limit);
    void send_plainly(Ps end);
    std::uint64_t frames_allowed() const;
    void burst(std::uint64_t frames);
    void work(Ps takes);
    void post();
    void before_burst(std::uint64_t frames);
    void wait(Ps limit);
    Ps gate(Count& why) const;
    void refuse_or_queue();
    void drain_queue();
    void acknowledge(std::uint64_t frames);
    bool stack_heeded() const { return config_.bql && config_.bql_stops; }
    bool closed() const { return stopped_ || (stack_heeded() && !dql_.has_room()); }

    // sim_lane_poll.h
    Moderator& rx_moderator();
    void look_for_interrupt();
    void interrupt();
    void poll();
    std::uint64_t poll_tx(std::uint64_t before);
    std::uint64_t poll_rx();
    bool traces() const { return number_ == 0 && trace_.size() < config_.trace; }
    void point(bool interrupt);

    const Config& config_;
    Shared& shared_;
    std::uint32_t number_;
    TxRing ring_;
    RxRing rx_;
    Moderator tx_moderator_, rx_moderator_;
    Dql dql_;

    Ps now_ = 0, started_at_ = 0;
    Ps interrupt_at_ = kNever;
    bool rx_first_ = false;  // the coming interrupt is the receiver's
    const bool receives_;    // anything ever arrives
    bool polling_ = false;   // the interrupt's work goes on
    Work polled_tx_, polled_rx_;
    std::uint64_t posting_ = 0;  // frames whose doorbell rings now
    bool stopped_ = false, ended_ = false, carrier_lost_ = false;
    Ps due_ = 0;
    Ps doorbell_at_ = kNever;
    std::uint64_t call_frames_ = 0;  // frames of the call that has been paid for
    std::uint64_t queue_ = 0;        // frames that wait in the qdisc
    std::uint64_t in_window_ = 0, since_ack_ = 0;
    std::uint64_t interrupts_ = 0;
    double waiting_ps_ = 0, uncleaned_ps_ = 0;
    std::uint32_t most_in_flight_ = 0;
    Counts counts_{};
    LaneReport start_{};
    std::vector<TracePoint> trace_;
    Histogram latency_;
};

}  // namespace labkit::sim

#include "sim_lane_poll.h"
#include "sim_lane_run.h"
#include "sim_lane_send.h"
