// The reading end of a stream, on a thread of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "tcp_stream.h"

namespace labkit {

class StreamReader {
  public:
    // Starts the thread; returns when it is on its CPU, and throws what kept it from that.
    explicit StreamReader(const StreamConfig& config);
    // Ends the thread at once, if it still runs.
    ~StreamReader();
    StreamReader(const StreamReader&) = delete;
    StreamReader& operator=(const StreamReader&) = delete;

    // The time that counts are told by; before the first write.
    void begin(std::int64_t start_ns) { start_ns_.store(start_ns, std::memory_order_release); }

    // Reads on to the stream's end, until deadline_ns at the most, and writes what it saw into the report.
    void finish(std::int64_t deadline_ns, StreamReport& report);

  private:
    void run();
    void read_all();
    void count_interval(std::int64_t now_ns);

    static constexpr std::int64_t kNoDeadline = INT64_MAX;

    const StreamConfig& config_;
    std::vector<std::uint8_t> bytes_;
    std::vector<std::pair<std::int64_t, std::uint64_t>> intervals_;
    std::uint64_t received_ = 0;
    std::int64_t due_ns_ = 0;  // of the next interval
    std::int64_t end_ns_ = 0, cpu_ns_ = 0;
    bool drained_ = false;
    int errno_ = 0;
    std::exception_ptr failure_;
    std::atomic<bool> begun_{false};
    std::atomic<std::int64_t> start_ns_{0};
    std::atomic<std::int64_t> deadline_ns_{kNoDeadline};
    std::thread thread_;
};

}  // namespace labkit
