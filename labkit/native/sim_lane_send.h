// How a lane sends: what holds it back, what a burst costs, and when each frame has left. Part of sim_lane.h.
#pragma once

namespace labkit::sim {

template <bool kEverything>
Lane<kEverything>::Lane(const Config& config, Shared& shared, std::uint32_t number)
    : config_(config),
      shared_(shared),
      number_(number),
      ring_(config),
      rx_(config, config.seed + number),
      tx_moderator_(config.tx_moderation),
      rx_moderator_(config.rx_moderation),
      dql_(config.bql_min, config.bql_max, config.bql_hold) {
    trace_.reserve(number == 0 ? config.trace : 0);
    if (kEverything) look_for_interrupt();
}

template <bool kEverything>
void Lane<kEverything>::run_until(Ps limit) {
    while (now_ < limit && !ended_) {
        if (now_ >= interrupt_at_) {
            interrupt();
        } else {
            send(limit);
        }
    }
}

// The next burst, or the next thing that happens instead.
template <bool kEverything>
void Lane<kEverything>::send(Ps limit) {
    if (config_.count != 0 && count(Count::kSent) >= config_.count) {
        ended_ = true;
        return;
    }
    if (now_ >= config_.carrier_lost_at) {
        ended_ = carrier_lost_ = true;
        return;
    }
    if (!kEverything) {
        if (stopped_) {
            wait(limit);
        } else {
            burst(frames_allowed());
        }
        return;
    }
    Count why = Count::kIdlePs;
    if (gate(why) > now_) {
        wait(limit);
    } else if (stopped_ || stack_stopped() || queue_ > 0) {
        if (config_.when_full == WhenFull::kSpin) {
            wait(limit);
        } else {
            refuse_or_queue();
        }
    } else {
        burst(frames_allowed());
    }
}

// The earliest moment at which this sender itself would go on, and what it waits for until then.
template <bool kEverything>
Ps Lane<kEverything>::gate(Count& why) const {
    if (!config_.sends) return kNever;
    if (config_.window > 0) {
        why = Count::kWindowWaitPs;
        if (in_window_ >= config_.window) return kNever;
        if (config_.small_queue > 0 && ring_.in_flight() + queue_ >= config_.small_queue) return kNever;
    }
    if (config_.when_full == WhenFull::kQueue && queue_ > 0 && queue_ >= config_.queue_limit) {
        why = Count::kRingWaitPs;
        return kNever;
    }
    why = Count::kPacingWaitPs;
    return config_.gap > 0 ? due_ : now_;
}

template <bool kEverything>
std::uint64_t Lane<kEverything>::frames_allowed() const {
    std::uint64_t frames = std::min<std::uint64_t>(config_.burst, ring_.free_slots());
    if (config_.count != 0) frames = std::min(frames, config_.count - count(Count::kSent));
    if (kEverything) {
        if (config_.window > 0) frames = std::min<std::uint64_t>(frames, config_.window - in_window_);
        if (config_.gap > 0) frames = 1;
    }
    return frames;
}

template <bool kEverything>
void Lane<kEverything>::burst(std::uint64_t frames) {
    if (kEverything) before_burst(frames);
    work(config_.burst_ps + static_cast<Ps>(frames) * config_.packet);
    at(Count::kSent) += frames;
    post(frames);
    if (kEverything) after_burst(frames);
}

// The sender's own work. A TCP segment takes longer than many an interrupt is away, so that one does not wait
// for it; pktgen's frame is too short for that to matter.
template <bool kEverything>
void Lane<kEverything>::work(Ps takes) {
    Ps end = now_ + takes;
    while (kEverything && config_.window > 0 && interrupt_at_ < end) {
        const Ps left = end - std::max(now_, interrupt_at_);
        now_ = end - left;
        interrupt();
        end = now_ + left;
    }
    now_ = end;
}

// Rings the doorbell for `frames` descriptors: the card fetches them, and each leaves behind the one before.
template <bool kEverything>
void Lane<kEverything>::post(std::uint64_t frames) {
    now_ += config_.doorbell;
    ++at(Count::kBursts);
    if (kEverything && config_.injects) return;
    Ps wire = std::max(shared_.wire_free, now_ + config_.fetch);
    for (std::uint64_t sent = 0; sent < frames; ++sent) {
        wire += config_.wire;
        ring_.post(wire);
        waiting_ps_ += static_cast<double>(wire - now_);
    }
    shared_.wire_free = wire;
    if (ring_.free_slots() == 0) stop();
    if (kEverything || interrupt_at_ == kNever) look_for_interrupt();
}

template <bool kEverything>
void Lane<kEverything>::stop() {
    stopped_ = true;
    if (trace_.size() < config_.trace && number_ == 0) point(false);
}

// What the call, the shared line and, as a hypothesis, the doorbell before cost ahead of a burst.
template <bool kEverything>
void Lane<kEverything>::before_burst(std::uint64_t frames) {
    if (call_frames_ == 0) {
        now_ += config_.call_ps;
        ++at(Count::kCalls);
        call_frames_ = config_.batch;
    }
    call_frames_ -= std::min(call_frames_, frames);
    if (config_.locked_stall > 0 && doorbell_at_ != kNever) {
        const Ps stall = std::max<Ps>(0, doorbell_at_ + config_.locked_stall - now_);
        now_ += stall;
        add(Count::kStallPs, stall);
    }
    if (config_.shared_line > 0 && shared_.line_owner != number_) {
        const Ps moved = std::max(now_, shared_.line_free) + config_.shared_line;
        add(Count::kSharedLinePs, moved - now_);
        now_ = shared_.line_free = moved;
        shared_.line_owner = number_;
    }
}

template <bool kEverything>
void Lane<kEverything>::after_burst(std::uint64_t frames) {
    doorbell_at_ = now_;
    due_ += static_cast<Ps>(frames) * config_.gap;
    if (config_.bql) dql_.queued(static_cast<std::int64_t>(frames) * config_.frame_bytes);
    if (config_.window > 0) {
        in_window_ += frames;
        acknowledge(frames);
        look_for_interrupt();
    }
}

// The peer's answers to `frames` segments that have just been posted.
template <bool kEverything>
void Lane<kEverything>::acknowledge(std::uint64_t frames) {
    for (std::uint64_t left = frames; left > 0; --left) {
        if (++since_ack_ < config_.ack_every) continue;
        since_ack_ = 0;
        const Ps last_bit = shared_.wire_free - static_cast<Ps>(left - 1) * config_.wire;
        rx_.push_late(last_bit + config_.ack_delay, config_.ack_jitter);
    }
}

// A frame that finds the queue stopped: past the qdisc its call fails; through it, it waits there.
template <bool kEverything>
void Lane<kEverything>::refuse_or_queue() {
    before_burst(1);
    work(config_.packet);
    due_ += config_.gap;
    if (config_.when_full == WhenFull::kRefuse) {
        ++at(Count::kRefused);
        return;
    }
    ++at(Count::kSent);
    ++queue_;
    if (config_.window > 0) ++in_window_;
    drain_queue();  // an interrupt may have made room meanwhile
}

template <bool kEverything>
void Lane<kEverything>::drain_queue() {
    while (queue_ > 0 && !stopped_ && !stack_stopped()) {
        --queue_;
        post(1);
        doorbell_at_ = now_;
        if (config_.bql) dql_.queued(config_.frame_bytes);
        if (config_.window > 0) acknowledge(1);
    }
}

template <bool kEverything>
void Lane<kEverything>::wait(Ps limit) {
    Count why = Count::kRingWaitPs;
    Ps until = std::min(interrupt_at_, limit);
    if (kEverything) {
        Count reason = Count::kIdlePs;
        const Ps due = gate(reason);
        if (due > now_) {
            why = reason;
            until = std::min(until, due);
        }
    }
    until = std::min(until, std::max(now_, config_.carrier_lost_at));
    add(why, until - now_);
    now_ = until;
}

template <bool kEverything>
void Lane<kEverything>::begin() {
    start_ = report();
    started_at_ = now_;
    most_in_flight_ = 0;
}

template <bool kEverything>
LaneReport Lane<kEverything>::report() const {
    LaneReport found = start_;
    for (std::size_t one = 0; one < kCounts; ++one) found.counts[one] = counts_[one] - start_.counts[one];
    found.counts[static_cast<std::size_t>(Count::kElapsedPs)] =
        static_cast<std::uint64_t>(now_ - started_at_);
    found.waiting_ps = waiting_ps_ - start_.waiting_ps;
    found.uncleaned_ps = uncleaned_ps_ - start_.uncleaned_ps;
    found.most_in_flight = most_in_flight_;
    found.bql_limit = dql_.limit();
    found.itr = tx_moderator_.itr();
    return found;
}

}  // namespace labkit::sim
