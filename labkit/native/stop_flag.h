// The one thing that another thread may tell a running engine.
#pragma once

#include <atomic>

namespace labkit {

class StopFlag {
  public:
    void set() { flag_.store(true, std::memory_order_relaxed); }
    bool is_set() const { return flag_.load(std::memory_order_relaxed); }

  private:
    // a cache line of its own: it is read once a batch and must not travel with a neighbour's writes
    alignas(64) std::atomic<bool> flag_{false};
};

}  // namespace labkit
