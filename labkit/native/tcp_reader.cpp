#include "tcp_reader.h"

#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <system_error>

#include "affinity.h"
#include "clock.h"

namespace labkit {
StreamReader::StreamReader(const StreamConfig& config) : config_(config), bytes_(kReadBytes) {
    intervals_.reserve(config.most_intervals + 1);
    const timeval longest{0, kSocketWaitMs * 1000};
    if (setsockopt(config.receive_fd, SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest) != 0)
        throw std::system_error(errno, std::generic_category(), "SO_RCVTIMEO of the reading end");
    thread_ = std::thread([this] { run(); });
    while (!begun_.load(std::memory_order_acquire)) std::this_thread::yield();
    if (failure_) {
        thread_.join();
        std::rethrow_exception(failure_);
    }
}

StreamReader::~StreamReader() {
    if (!thread_.joinable()) return;
    deadline_ns_.store(0, std::memory_order_relaxed);
    thread_.join();
}

void StreamReader::finish(std::int64_t deadline_ns, StreamReport& report) {
    deadline_ns_.store(deadline_ns, std::memory_order_relaxed);
    thread_.join();
    report.bytes_received = received_;
    report.end_ns = end_ns_;
    report.receive_cpu_ns = cpu_ns_;
    report.drained = drained_;
    if (errno_ != 0) report.receive_errno = errno_;
    report.intervals = std::move(intervals_);
}

void StreamReader::run() {
    try {
        const CpuPin pin(config_.receive_cpu);
        begun_.store(true, std::memory_order_release);
        const std::int64_t cpu_ns = thread_cpu_ns();
        read_all();
        cpu_ns_ = thread_cpu_ns() - cpu_ns;
    } catch (...) {
        failure_ = std::current_exception();
        begun_.store(true, std::memory_order_release);
    }
}

void StreamReader::read_all() {
    std::int64_t now_ns = 0;
    while (now_ns < deadline_ns_.load(std::memory_order_relaxed)) {
        const ssize_t got = recv(config_.receive_fd, bytes_.data(), bytes_.size(), 0);
        now_ns = monotonic_ns();
        if (got > 0) {
            received_ += static_cast<std::uint64_t>(got);
        } else if (got == 0) {
            drained_ = true;
            break;
        } else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
            errno_ = errno;
            break;
        }
        count_interval(now_ns);
    }
    end_ns_ = monotonic_ns();
    const std::int64_t start_ns = start_ns_.load(std::memory_order_acquire);
    if (start_ns != 0 && intervals_.size() < intervals_.capacity())
        intervals_.emplace_back(end_ns_ - start_ns, received_);
}

// One count for each interval that is over; a read that took several of them has one for all.
void StreamReader::count_interval(std::int64_t now_ns) {
    const std::int64_t start_ns = start_ns_.load(std::memory_order_acquire);
    if (start_ns == 0) return;
    if (due_ns_ == 0) due_ns_ = start_ns + config_.interval_ns;
    if (now_ns < due_ns_ || intervals_.size() >= config_.most_intervals) return;
    intervals_.emplace_back(now_ns - start_ns, received_);
    due_ns_ += ((now_ns - due_ns_) / config_.interval_ns + 1) * config_.interval_ns;
}

}  // namespace labkit
