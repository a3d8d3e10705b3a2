#include "affinity.h"

#include <cerrno>
#include <stdexcept>
#include <system_error>

namespace labkit {

std::string cpu_list(const cpu_set_t& mask) {
    std::string text;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (!CPU_ISSET(cpu, &mask)) continue;
        const int first = cpu;
        while (cpu + 1 < CPU_SETSIZE && CPU_ISSET(cpu + 1, &mask)) ++cpu;
        text += (text.empty() ? "" : ",") + std::to_string(first);
        if (cpu > first) text += "-" + std::to_string(cpu);
    }
    return text;
}

CpuPin::CpuPin(std::optional<int> cpu) {
    if (!cpu) return;
    if (sched_getaffinity(0, sizeof before_, &before_) != 0) {
        throw std::system_error(errno, std::generic_category(), "CPU mask of the sender");
    }
    cpu_set_t wanted;
    CPU_ZERO(&wanted);
    if (*cpu >= 0 && *cpu < CPU_SETSIZE) CPU_SET(*cpu, &wanted);
    // the kernel would take any CPU of the cpuset; a mask that somebody narrowed on purpose is kept, too
    const bool allowed = *cpu >= 0 && *cpu < CPU_SETSIZE && CPU_ISSET(*cpu, &before_);
    if (!allowed || sched_setaffinity(0, sizeof wanted, &wanted) != 0) {
        throw std::invalid_argument("CPU " + std::to_string(*cpu) +
                                    " is not allowed here; allowed: " + cpu_list(before_));
    }
    pinned_ = true;
}

CpuPin::~CpuPin() {
    if (pinned_) sched_setaffinity(0, sizeof before_, &before_);
}

}  // namespace labkit
