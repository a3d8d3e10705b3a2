// A TCP stream between two connected sockets: one thread writes, one reads, and both count bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "stop_flag.h"
#include "tx.h"

namespace labkit {

constexpr std::size_t kMostMessageBytes = 16 << 20;  // of one write

// What a read takes at most: the usual write's length, which stays in a first-level cache.
constexpr std::size_t kReadBytes = 16 << 10;

// Longest wait for a socket before stop flag and clock are looked at again.
constexpr int kSocketWaitMs = 4;

// Longest wait for what is on its way once the sender has written its last.
constexpr std::int64_t kStreamDrainNs = 2'000'000'000;

struct StreamConfig {
    int send_fd = -1;  // connected to receive_fd, which blocks
    int receive_fd = -1;
    std::size_t message_bytes = 16384;        // of one write, 1 to kMostMessageBytes
    std::optional<std::uint64_t> count;       // writes
    std::optional<std::int64_t> duration_ns;  // whichever of the two ends first
    std::optional<int> send_cpu;              // none: wherever the scheduler puts it
    std::optional<int> receive_cpu;
    std::int64_t interval_ns = 100'000'000;  // between two counts of what has arrived
    std::size_t most_intervals = 10'000;     // room for so many, made beforehand
    std::int64_t drain_ns = kStreamDrainNs;
};

// What the kernel tells of a connection in the end (struct tcp_info).
struct TcpFacts {
    std::uint32_t retransmits = 0;  // segments, of the whole connection
    std::uint32_t rtt_us = 0;       // smoothed
    std::uint32_t cwnd_segments = 0;
    std::uint32_t mss_bytes = 0;
    std::uint32_t data_segments = 0;  // each a frame, however many of them a packet of the device carried
};

struct StreamReport {
    std::uint64_t bytes_sent = 0;      // that the socket took
    std::uint64_t bytes_received = 0;  // that the reader got
    std::uint64_t writes = 0;          // calls of send() that took something
    std::uint64_t short_writes = 0;    // of these: that took less than they were given
    std::uint64_t waits = 0;           // for room in the socket's buffer
    std::int64_t start_ns = 0;         // CLOCK_MONOTONIC just before the first write
    std::int64_t written_ns = 0;       // just after the last one
    std::int64_t end_ns = 0;           // as the reader saw the stream's end
    std::int64_t send_cpu_ns = 0;
    std::int64_t receive_cpu_ns = 0;
    std::int64_t involuntary_switches = 0;  // of the sender
    bool drained = false;                   // the reader came to the stream's end
    std::optional<int> send_errno, receive_errno;
    std::optional<TcpFacts> tcp;  // none: no TCP socket
    // nanoseconds after start_ns, bytes received by then
    std::vector<std::pair<std::int64_t, std::uint64_t>> intervals;
    EndedBy ended_by = EndedBy::kError;
};

// Writes until count, duration, stop or an error; then the stream is ended, and what is on its way is read.
// The sender is the calling thread, the reader one of its own. Throws std::invalid_argument for a config that
// makes no sense and std::system_error where a thread or the sockets cannot be had.
StreamReport tcp_stream(const StreamConfig& config, const StopFlag& stop);

}  // namespace labkit
