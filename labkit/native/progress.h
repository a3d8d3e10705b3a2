// Counts of a running engine, readable from another thread at any time.
#pragma once

#include <atomic>
#include <cstdint>

namespace labkit {

class Progress {
  public:
    // Called by the engine once a batch; both values count from the start of the run.
    void store(std::uint64_t sent, std::uint64_t refused) {
        sent_.store(sent, std::memory_order_relaxed);
        refused_.store(refused, std::memory_order_relaxed);
    }
    std::uint64_t sent() const { return sent_.load(std::memory_order_relaxed); }
    std::uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

  private:
    alignas(64) std::atomic<std::uint64_t> sent_{0};
    std::atomic<std::uint64_t> refused_{0};
};

}  // namespace labkit
