// How a lane takes an interrupt and cleans. Part of sim_lane.h.
#pragma once

namespace labkit::sim {

// Receive moderation shares the interval of a shared vector; hold-off timers are each direction's own.
template <bool kEverything>
Moderator& Lane<kEverything>::rx_moderator() {
    return config_.shared_vector && !rx_moderator_.is_hold_off() ? tx_moderator_ : rx_moderator_;
}

template <bool kEverything>
void Lane<kEverything>::look_for_interrupt() {
    const Ps nth = kEverything ? ring_.done_of(tx_moderator_.frames()) : kNever;
    interrupt_at_ = tx_moderator_.fires_at(ring_.first_done(), nth);
    rx_first_ = false;
    if (!kEverything || !receives_) return;
    const Moderator& moderator = rx_moderator();
    const Ps rx = moderator.fires_at(rx_.arrival_of(1), rx_.arrival_of(moderator.frames()));
    if (rx < interrupt_at_) {
        interrupt_at_ = rx;
        rx_first_ = true;
    }
}

template <bool kEverything>
void Lane<kEverything>::interrupt() {
    const Ps fired = interrupt_at_;
    Moderator& moderator = rx_first_ ? rx_moderator() : tx_moderator_;
    if (config_.drop_interrupt_every > 0 && ++interrupts_ % config_.drop_interrupt_every == 0) {
        // Tried again at once, a card without moderation whose every interrupt is lost would try for ever.
        moderator.lost(fired, config_.wire);
        look_for_interrupt();
        return;
    }
    moderator.fired(fired);
    ++at(rx_first_ ? Count::kRxInterrupts : Count::kTxInterrupts);
    most_in_flight_ = std::max(most_in_flight_, static_cast<std::uint32_t>(ring_.in_flight()));
    if (traces()) point(false);
    now_ += config_.interrupt;
    ring_.flush(fired);
    polling_ = true;
    polled_tx_ = polled_rx_ = Work{};
}

// One poll. One that reaches its limit is called again; one that stays below ends what the interrupt began.
template <bool kEverything>
void Lane<kEverything>::poll() {
    const bool tx = !kEverything || config_.shared_vector || !rx_first_;
    const bool rx = kEverything && receives_ && (config_.shared_vector || rx_first_);
    ++at(Count::kPolls);
    const std::uint64_t tx_done = tx ? poll_tx(polled_tx_.packets) : 0;
    const std::uint64_t rx_done = rx ? poll_rx() : 0;
    polled_tx_.packets += tx_done;
    polled_rx_.packets += rx_done;
    if (tx_done == config_.clean_limit || rx_done == config_.rx_budget) {
        now_ += config_.repoll;
        ++at(Count::kRepolls);
        return;
    }
    polling_ = false;
    polled_tx_.bytes = polled_tx_.packets * config_.frame_bytes;
    polled_rx_.bytes = polled_rx_.packets * (config_.window > 0 ? kAckBytes : config_.frame_bytes);
    (rx_first_ ? rx_moderator() : tx_moderator_).polled(polled_tx_, polled_rx_);
    if (traces()) point(true);
    look_for_interrupt();
}

// Frames cleaned by one poll; `before` were cleaned since the interrupt. What is cleaned at once beyond the
// cache's size has been evicted since it was sent. A poll finds what had been written back when it began: it
// follows the card's write-backs closer than those arrive.
template <bool kEverything>
std::uint64_t Lane<kEverything>::poll_tx(std::uint64_t before) {
    std::uint64_t cleaned = 0;
    Ps now = now_;
    double uncleaned = 0;
    const std::uint64_t in_cache = config_.cached > before ? config_.cached - before : 0;
    while (cleaned < config_.clean_limit && ring_.finished(now_)) {
        now += config_.clean + (cleaned < in_cache ? 0 : config_.cache_miss);
        uncleaned += static_cast<double>(now - ring_.take());
        ++cleaned;
    }
    now_ = now;
    uncleaned_ps_ += uncleaned;
    at(Count::kCleaned) += cleaned;
    at(Count::kCacheMisses) += cleaned > in_cache ? cleaned - in_cache : 0;
    if (cleaned == 0) return 0;
    if (kEverything && config_.bql) {
        dql_.completed(static_cast<std::int64_t>(cleaned) * config_.frame_bytes, now_);
    }
    if (stopped_ && ring_.wakes()) {
        stopped_ = false;
        ++at(Count::kRestarts);
    }
    return cleaned;
}

template <bool kEverything>
std::uint64_t Lane<kEverything>::poll_rx() {
    std::uint64_t received = 0;
    const std::uint64_t missed_before = rx_.missed();
    while (received < config_.rx_budget && rx_.arrived(now_)) {
        const Ps arrived = rx_.take();
        now_ += config_.receive;
        latency_.add(static_cast<std::uint64_t>(now_ - arrived) / 1000);
        ++received;
        if (config_.window > 0) in_window_ -= std::min<std::uint64_t>(in_window_, config_.ack_every);
    }
    at(Count::kReceived) += received;
    if (config_.window > 0) at(Count::kAcks) += received;
    at(Count::kMissed) += rx_.missed() - missed_before;
    return received;
}

template <bool kEverything>
void Lane<kEverything>::point(bool interrupt) {
    const std::uint32_t waiting = ring_.waiting(now_);
    trace_.push_back({now_, waiting, static_cast<std::uint32_t>(ring_.in_flight()) - waiting,
                      interrupt ? 1U : 0U, dql_.limit(), dql_.inflight()});
}

}  // namespace labkit::sim
