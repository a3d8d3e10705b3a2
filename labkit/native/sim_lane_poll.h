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
    if (!kEverything) return;
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
    moderator.fired(fired);
    if (config_.drop_interrupt_every > 0 && ++interrupts_ % config_.drop_interrupt_every == 0) {
        // Nobody hears it; the cause stays, and the card tries again an interval later.
        const Ps again = fired + (rx_first_ ? config_.rx_moderation : config_.tx_moderation).period;
        look_for_interrupt();
        interrupt_at_ = std::max(interrupt_at_, again);
        return;
    }
    ++at(rx_first_ ? Count::kRxInterrupts : Count::kTxInterrupts);
    most_in_flight_ = std::max(most_in_flight_, static_cast<std::uint32_t>(ring_.in_flight()));
    if (trace_.size() < config_.trace && number_ == 0) point(false);
    now_ += config_.interrupt;
    ring_.flush(fired);
    poll(moderator);
    if (trace_.size() < config_.trace && number_ == 0) point(true);
    look_for_interrupt();
}

// Cleans until a poll stays below its limit; polls that reach it are called again.
template <bool kEverything>
void Lane<kEverything>::poll(Moderator& moderator) {
    const bool tx = !kEverything || config_.shared_vector || !rx_first_;
    const bool rx = kEverything && (config_.shared_vector || rx_first_);
    std::uint64_t cleaned = 0, received = 0;
    for (bool again = true; again;) {
        ++at(Count::kPolls);
        const std::uint64_t tx_done = tx ? poll_tx(cleaned) : 0;
        const std::uint64_t rx_done = rx ? poll_rx() : 0;
        cleaned += tx_done;
        received += rx_done;
        again = tx_done == config_.clean_limit || rx_done == config_.rx_budget;
        if (again) {
            now_ += config_.repoll;
            ++at(Count::kRepolls);
        }
    }
    moderator.polled(cleaned + received, (cleaned + received) * config_.frame_bytes);
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
    if (kEverything && config_.bql && cleaned > 0) {
        dql_.completed(static_cast<std::int64_t>(cleaned) * config_.frame_bytes, now_);
    }
    if (cleaned > 0) wake();
    return cleaned;
}

template <bool kEverything>
void Lane<kEverything>::wake() {
    if (stopped_ && ring_.wakes()) {
        stopped_ = false;
        ++at(Count::kRestarts);
    }
    if (kEverything && queue_ > 0) drain_queue();
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
                      interrupt ? 1U : 0U, dql_.limit()});
}

}  // namespace labkit::sim
