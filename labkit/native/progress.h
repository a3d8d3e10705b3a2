// Counts of a running engine, readable from another thread at any time.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

namespace labkit {

class Progress {
  public:
    // Called by the engine once a batch; both values count from the start of the run.
    void store(std::uint64_t sent, std::uint64_t refused) {
        sent_.store(sent, std::memory_order_relaxed);
        refused_.store(refused, std::memory_order_relaxed);
    }
    // Called once, before the first call of a paced run: frame k is due at start_ns + k * frame_ns.
    void pace(std::int64_t start_ns, double frame_ns) {
        frame_ns_.store(frame_ns, std::memory_order_relaxed);
        start_ns_.store(start_ns, std::memory_order_release);
    }
    // CLOCK_MONOTONIC; none: not begun, or not paced.
    std::optional<std::int64_t> start_ns() const {
        const std::int64_t ns = start_ns_.load(std::memory_order_acquire);
        return ns != 0 ? std::optional(ns) : std::nullopt;
    }
    std::optional<double> frame_ns() const {
        return start_ns() ? std::optional(frame_ns_.load(std::memory_order_relaxed)) : std::nullopt;
    }
    std::uint64_t sent() const { return sent_.load(std::memory_order_relaxed); }
    std::uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

  private:
    alignas(64) std::atomic<std::uint64_t> sent_{0};
    std::atomic<std::uint64_t> refused_{0};
    std::atomic<std::int64_t> start_ns_{0};
    std::atomic<double> frame_ns_{0};
};

}  // namespace labkit
