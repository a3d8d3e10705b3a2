// The thread of a receiving sink: reads until it is told to stop, and then what has arrived by that time.
// How frames come (Source) is a template argument: a ring, a socket, or a fake in the tests.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <stdexcept>

#include "affinity.h"
#include "clock.h"
#include "rx.h"
#include "rx_capture.h"

namespace labkit {

// Longest wait for what the kernel says that it has kept; a ring's last block comes when it retires.
constexpr std::int64_t kDrainNs = 2'000'000'000;

// The kernel's counts have 32 bits; a block of 8 MiB holds some 100 000 frames.
constexpr std::uint64_t kTakesBetweenCounts = 4096;

template <class Source>
class Receiver {
  public:
    // Opens the source: from here on frames are kept, though nobody reads them yet.
    Receiver(const FrameTable& table, const RxConfig& config, const Progress& sender)
        : arrivals_(table, config, sender), source_(std::in_place, config, longest_frame(table)) {
        source_->socket().start(config.promiscuous);
    }

    std::uint32_t share(std::optional<std::uint32_t> group) { return open().socket().share(group); }

    // Frames of ours so far; read from another thread.
    std::uint64_t received() const { return received_.load(std::memory_order_relaxed); }

    // Closes the source; harmless twice.
    void close() { source_.reset(); }

    // Throws std::invalid_argument for a CPU that is not allowed, and once the source is closed.
    RxReport run(const StopFlag& stop, std::optional<int> cpu) {
        const CpuPin pin(cpu);
        const std::int64_t cpu_ns = thread_cpu_ns();
        open();
        for (std::uint64_t takes = 1; !stop.is_set(); ++takes) {
            take();
            if (takes % kTakesBetweenCounts == 0) source_->socket().counts();
        }
        CaptureCounts counts = source_->socket().counts();
        const std::int64_t deadline_ns = monotonic_ns() + kDrainNs;
        while (arrivals_.seen() < counts.kept && monotonic_ns() < deadline_ns) {
            take();
            counts = source_->socket().counts();
        }
        RxReport report = arrivals_.report();
        report.kernel_dropped = counts.dropped;
        report.drained = arrivals_.seen() == counts.kept;
        report.cpu_ns = thread_cpu_ns() - cpu_ns;
        return report;
    }

  private:
    static std::size_t longest_frame(const FrameTable& table) {
        std::size_t longest = 0;
        for (std::size_t i = 0; i < table.size(); ++i) longest = std::max(longest, table.frame(i).iov_len);
        return longest;
    }

    Source& open() {
        if (!source_) throw std::invalid_argument("this sink is closed");
        return *source_;
    }

    void take() {
        source_->take(arrivals_);
        received_.store(arrivals_.received(), std::memory_order_relaxed);
    }

    Arrivals arrivals_;
    std::optional<Source> source_;
    std::atomic<std::uint64_t> received_{0};
};

}  // namespace labkit
