// How a lane sends: what holds it back, what a burst costs, and when each frame has left. Part of sim_lane.h.
#pragma once

namespace labkit::sim {

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
            send_plainly(limit);
        }
        return;
    }
    Count why = Count::kIdlePs;
    if (queue_ > 0 && !closed()) {
        drain_queue();
    } else if (gate(why) > now_) {
        wait(limit);
    } else if (!closed()) {
        burst(frames_allowed());
    } else if (config_.when_full == WhenFull::kSpin) {
        wait(limit);
    } else {
        refuse_or_queue();
    }
}

// pktgen alone: one burst after the other, until an interrupt or anything else comes between. It is burst()
// and post() with what they need at hand.
template <bool kEverything>
void Lane<kEverything>::send_plainly(Ps end) {
    end = std::min(end, config_.carrier_lost_at);
    const std::uint64_t count_left =
        config_.count == 0 ? ~std::uint64_t{0} : config_.count - count(Count::kSent);
    const Ps wire_ps = config_.wire, fetch = config_.fetch, frame = config_.packet;
    const Ps fixed = config_.burst_ps + config_.doorbell;
    const std::uint64_t most = config_.burst, all = std::min(ring_.free_slots(), count_left);
    Ps now = now_, wire = shared_.wire_free, pause = std::min(end, interrupt_at_);
    std::uint64_t sent = 0, bursts = 0;
    double waiting = 0;
    while (now < pause && sent < all) {
        const std::uint64_t frames = std::min(most, all - sent);
        now += fixed + static_cast<Ps>(frames) * frame;
        sent += frames;
        ++bursts;
        if (now >= end) {
            posting_ = frames;
            break;
        }
        wire = std::max(wire, now + fetch);
        for (std::uint64_t one = 0; one < frames; ++one) {
            wire += wire_ps;
            ring_.post(wire);
            waiting += static_cast<double>(wire - now);
        }
        if (pause == end && interrupt_at_ == kNever) {
            look_for_interrupt();
            pause = std::min(end, interrupt_at_);
        }
    }
    stopped_ = ring_.free_slots() == 0;
    now_ = now;
    shared_.wire_free = wire;
    waiting_ps_ += waiting;
    at(Count::kSent) += sent;
    at(Count::kBursts) += bursts;
    if (stopped_ && traces()) point(false);
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
    if (config_.when_full == WhenFull::kQueue && queue_ >= config_.queue_limit) {
        why = Count::kRingWaitPs;
        return kNever;
    }
    why = Count::kPacingWaitPs;
    return config_.gap > 0 ? due_ : now_;
}

// Frames that the next doorbell may serve: those of the same call for which ring, window and BQL have room.
template <bool kEverything>
std::uint64_t Lane<kEverything>::frames_allowed() const {
    std::uint64_t frames = std::min<std::uint64_t>(config_.burst, ring_.free_slots());
    if (config_.count != 0) frames = std::min(frames, config_.count - count(Count::kSent));
    if (config_.call_ps > 0) frames = std::min(frames, call_frames_ > 0 ? call_frames_ : config_.batch);
    if (config_.window > 0) {
        frames = std::min<std::uint64_t>(frames, config_.window - in_window_);
        if (config_.small_queue > 0) frames = std::min(frames, config_.small_queue - ring_.in_flight());
    }
    if (frames > 1 && stack_heeded()) frames = std::min(frames, dql_.room(config_.frame_bytes));
    return config_.gap > 0 ? 1 : frames;
}

template <bool kEverything>
void Lane<kEverything>::burst(std::uint64_t frames) {
    before_burst(frames);
    work(config_.burst_ps + static_cast<Ps>(frames) * config_.packet + config_.doorbell);
    at(Count::kSent) += frames;
    ++at(Count::kBursts);
    due_ += static_cast<Ps>(frames) * config_.gap;
    if (config_.window > 0) in_window_ += frames;
    if (!config_.injects) posting_ = frames;
}

// The sender's own work. A TCP segment takes longer than many an interrupt is away, so that one does not wait
// for it; pktgen's frame is too short for that to matter.
template <bool kEverything>
void Lane<kEverything>::work(Ps takes) {
    Ps end = now_ + takes;
    while (config_.window > 0 && interrupt_at_ < end) {
        const Ps left = end - std::max(now_, interrupt_at_);
        now_ = end - left;
        interrupt();
        while (polling_) poll();
        end = now_ + left;
    }
    now_ = end;
}

// The doorbell rings: the card fetches the frames, and each leaves behind the one before, whichever lane's
// that was. An event of its own, so that the frames of all lanes come to the wire in the order of their
// doorbells.
template <bool kEverything>
void Lane<kEverything>::post() {
    Ps wire = std::max(shared_.wire_free, now_ + config_.fetch);
    double waiting = 0;
    for (std::uint64_t sent = 0; sent < posting_; ++sent) {
        wire += config_.wire;
        ring_.post(wire);
        waiting += static_cast<double>(wire - now_);
    }
    waiting_ps_ += waiting;
    shared_.wire_free = wire;
    doorbell_at_ = now_;
    if (config_.bql) dql_.queued(posting_, config_.frame_bytes);
    if (config_.window > 0) acknowledge(posting_);
    if (ring_.free_slots() == 0) {
        stopped_ = true;
        if (traces()) point(false);
    }
    posting_ = 0;
    look_for_interrupt();
}

// What the call, the shared line and, as a hypothesis, the doorbell before cost ahead of a burst.
template <bool kEverything>
void Lane<kEverything>::before_burst(std::uint64_t frames) {
    if (config_.call_ps > 0) {
        if (call_frames_ == 0) {
            now_ += config_.call_ps;
            ++at(Count::kCalls);
            call_frames_ = config_.batch;
        }
        call_frames_ -= frames;
    }
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
}

// The qdisc hands its next frame to the driver, under the queue's lock and with a doorbell of its own.
template <bool kEverything>
void Lane<kEverything>::drain_queue() {
    --queue_;
    now_ += config_.burst_ps + config_.doorbell;
    ++at(Count::kBursts);
    posting_ = 1;
}

template <bool kEverything>
void Lane<kEverything>::wait(Ps limit) {
    Count why = Count::kRingWaitPs;
    Ps until = std::min({interrupt_at_, limit, config_.carrier_lost_at});
    if (kEverything) {
        Count reason = Count::kIdlePs;
        const Ps due = gate(reason);
        if (due > now_) {
            why = reason;
            until = std::min(until, due);
        }
    }
    add(why, until - now_);
    now_ = until;
}

}  // namespace labkit::sim
