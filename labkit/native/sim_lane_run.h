// What a lane does next, and what it reports. Part of sim_lane.h.
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
      dql_(config.bql_min, config.bql_max, config.bql_hold),
      receives_(config.arrival_gap > 0 || config.window > 0) {
    trace_.reserve(number == 0 ? config.trace : 0);
    if (kEverything) look_for_interrupt();
}

template <bool kEverything>
void Lane<kEverything>::run_until(Ps limit, Ps end) {
    while (now_ < limit && !ended_) {
        if (posting_ > 0) {
            post();
        } else if (polling_) {
            poll();
        } else if (now_ >= interrupt_at_) {
            interrupt();
        } else {
            send(end);
        }
    }
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
