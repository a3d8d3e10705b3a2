// Keeps the calling thread on one CPU for a while.
#pragma once

#include <sched.h>

#include <optional>
#include <string>

namespace labkit {

class CpuPin {
  public:
    // Does nothing without a CPU. Throws std::invalid_argument, naming the allowed CPUs, when the process
    // may not use this one; a sender is never left unpinned silently.
    explicit CpuPin(std::optional<int> cpu);
    ~CpuPin();
    CpuPin(const CpuPin&) = delete;
    CpuPin& operator=(const CpuPin&) = delete;

  private:
    cpu_set_t before_{};
    bool pinned_ = false;
};

// The CPUs of a mask as people write them: "0-3,8".
std::string cpu_list(const cpu_set_t& mask);

}  // namespace labkit
