#include "tcp_stream.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <stdexcept>

#include "affinity.h"
#include "clock.h"
#include "tcp_reader.h"

namespace labkit {
namespace {

// Bytes, and writes, between two looks at clock and stop flag.
constexpr std::size_t kLookBytes = 16384;
constexpr std::uint32_t kLookWrites = 256;

void check(const StreamConfig& config) {
    if (config.message_bytes < 1 || config.message_bytes > kMostMessageBytes)
        throw std::invalid_argument("a write has 1 to 16777216 bytes");
    if (!config.count && !config.duration_ns)
        throw std::invalid_argument("neither count nor duration: the stream would never end");
    if (config.interval_ns < 1) throw std::invalid_argument("an interval lasts a nanosecond or more");
}

class StreamSender {
  public:
    StreamSender(const StreamConfig& config, const StopFlag& stop, StreamReport& report)
        : config_(config), stop_(stop), report_(report), message_(config.message_bytes, 0x5a) {}

    void run() {
        while (!over()) {
            const ssize_t took = send(config_.send_fd, message_.data() + place_, message_.size() - place_,
                                      MSG_DONTWAIT | MSG_NOSIGNAL);
            if (took > 0) {
                taken(static_cast<std::size_t>(took));
            } else if (took < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
                report_.waits += 1;
                wait_for_room();
                look_ = true;
            } else if (took < 0 && errno != EINTR) {
                report_.send_errno = errno;
                report_.ended_by = EndedBy::kError;
                break;
            }
        }
        report_.written_ns = monotonic_ns();
    }

  private:
    void taken(std::size_t bytes) {
        report_.writes += 1;
        report_.bytes_sent += bytes;
        place_ += bytes;
        since_bytes_ += bytes;
        since_writes_ += 1;
        if (place_ == message_.size()) {
            place_ = 0;
            messages_ += 1;
        } else {
            report_.short_writes += 1;
        }
    }

    bool over() {
        if (config_.count && messages_ >= *config_.count) return ends(EndedBy::kCount);
        if (!look_ && since_bytes_ < kLookBytes && since_writes_ < kLookWrites) return false;
        look_ = false;
        since_bytes_ = 0;
        since_writes_ = 0;
        if (stop_.is_set()) return ends(EndedBy::kStop);
        if (config_.duration_ns && monotonic_ns() - report_.start_ns >= *config_.duration_ns)
            return ends(EndedBy::kDuration);
        return false;
    }

    // By poll(), whose timer is exact: SO_SNDTIMEO counts jiffies, of which one may take 10 ms.
    void wait_for_room() {
        pollfd one{config_.send_fd, POLLOUT, 0};
        poll(&one, 1, kSocketWaitMs);  // whatever it says, the next send() says more
    }

    bool ends(EndedBy by) {
        report_.ended_by = by;
        return true;
    }

    const StreamConfig& config_;
    const StopFlag& stop_;
    StreamReport& report_;
    const std::vector<std::uint8_t> message_;
    std::size_t place_ = 0;  // what of the message the socket has taken
    std::uint64_t messages_ = 0;
    std::size_t since_bytes_ = 0;
    std::uint32_t since_writes_ = 0;
    bool look_ = true;  // before the first write, and after each wait
};

std::optional<TcpFacts> facts(int fd) {
    tcp_info info{};
    socklen_t bytes = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return std::nullopt;
    return TcpFacts{info.tcpi_total_retrans, info.tcpi_rtt, info.tcpi_snd_cwnd, info.tcpi_snd_mss,
                    info.tcpi_data_segs_out};
}

}  // namespace

StreamReport tcp_stream(const StreamConfig& config, const StopFlag& stop) {
    check(config);
    StreamReport report;
    StreamSender sender(config, stop, report);
    StreamReader reader(config);  // before the sender is pinned: threads inherit the mask
    const CpuPin pin(config.send_cpu);
    const std::int64_t cpu_ns = thread_cpu_ns();
    const std::int64_t switches = involuntary_switches();
    report.start_ns = monotonic_ns();
    reader.begin(report.start_ns);
    sender.run();
    report.send_cpu_ns = thread_cpu_ns() - cpu_ns;
    report.involuntary_switches = involuntary_switches() - switches;
    shutdown(config.send_fd, SHUT_WR);  // fails on a broken connection, which the reader sees too
    reader.finish(report.written_ns + config.drain_ns, report);
    report.tcp = facts(config.send_fd);
    return report;
}

}  // namespace labkit
