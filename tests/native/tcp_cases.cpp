// A stream over socket pairs and loopback: bytes, intervals, ends, and what breaks it.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "clock.h"
#include "harness.h"
#include "stop_flag.h"
#include "tcp_stream.h"

namespace {

constexpr std::int64_t kMs = 1'000'000;

struct Pair {
    Pair() {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) throw std::runtime_error("socketpair");
        send = ends[0];
        receive = ends[1];
    }
    ~Pair() {
        close(send);
        close(receive);
    }
    Pair(const Pair&) = delete;
    Pair& operator=(const Pair&) = delete;

    labkit::StreamConfig config() const {
        labkit::StreamConfig asked;
        asked.send_fd = send;
        asked.receive_fd = receive;
        asked.interval_ns = 5 * kMs;
        return asked;
    }

    int send = -1, receive = -1;
};

labkit::StreamReport run(const labkit::StreamConfig& config) {
    const labkit::StopFlag stop;
    return labkit::tcp_stream(config, stop);
}

}  // namespace

CASE(a_stream_of_a_count_is_that_many_writes_exactly) {
    const Pair pair;
    labkit::StreamConfig asked = pair.config();
    asked.message_bytes = 1000;
    asked.count = 777;
    const labkit::StreamReport report = run(asked);
    EQUAL(report.bytes_sent, 777'000U);
    EQUAL(report.bytes_received, 777'000U);
    CLAIM(report.drained);
    CLAIM(report.ended_by == labkit::EndedBy::kCount);
    CLAIM(!report.send_errno && !report.receive_errno);
    CLAIM(report.end_ns >= report.written_ns && report.written_ns >= report.start_ns);
    CLAIM(!report.tcp);  // no TCP socket
}

CASE(a_stream_of_no_write_has_no_byte) {
    const Pair pair;
    labkit::StreamConfig asked = pair.config();
    asked.count = 0;
    const labkit::StreamReport report = run(asked);
    EQUAL(report.bytes_sent, 0U);
    EQUAL(report.bytes_received, 0U);
    CLAIM(report.drained);
}

CASE(a_stream_lasts_as_long_as_asked_and_counts_at_intervals) {
    const Pair pair;
    labkit::StreamConfig asked = pair.config();
    asked.duration_ns = 60 * kMs;
    const labkit::StreamReport report = run(asked);
    CLAIM(report.written_ns - report.start_ns >= 60 * kMs);
    CLAIM(report.ended_by == labkit::EndedBy::kDuration);
    CLAIM(report.intervals.size() >= 2);
    std::int64_t at_ns = 0;
    std::uint64_t bytes = 0;
    for (const auto& [then_ns, by_then] : report.intervals) {
        CLAIM(then_ns > at_ns && by_then >= bytes);
        at_ns = then_ns;
        bytes = by_then;
    }
    EQUAL(bytes, report.bytes_received);
    EQUAL(at_ns, report.end_ns - report.start_ns);
    EQUAL(report.bytes_received, report.bytes_sent);
}

CASE(a_stream_makes_no_more_room_for_intervals_than_it_had) {
    const Pair pair;
    labkit::StreamConfig asked = pair.config();
    asked.duration_ns = 30 * kMs;
    asked.interval_ns = 1;
    asked.most_intervals = 3;
    const labkit::StreamReport report = run(asked);
    EQUAL(report.intervals.size(), 4U);  // the last is the stream's end
    EQUAL(report.intervals.back().second, report.bytes_received);
}

CASE(a_message_longer_than_the_socket_s_buffer_is_sent_in_parts) {
    const Pair pair;
    labkit::StreamConfig asked = pair.config();
    asked.message_bytes = 3 << 20;
    asked.count = 2;
    const labkit::StreamReport report = run(asked);
    EQUAL(report.bytes_received, 6U << 20);
    CLAIM(report.short_writes > 0);
    CLAIM(report.waits > 0);
}

CASE(a_stop_ends_a_stream_whose_socket_is_full) {
    const Pair pair, unread;
    labkit::StreamConfig asked = pair.config();
    asked.receive_fd = unread.receive;  // nobody reads what is written
    asked.duration_ns = 60'000 * kMs;
    asked.drain_ns = 10 * kMs;
    labkit::StopFlag stop;
    labkit::StreamReport report;
    std::thread stream([&] { report = labkit::tcp_stream(asked, stop); });
    stop.set();
    stream.join();
    CLAIM(report.ended_by == labkit::EndedBy::kStop);
    CLAIM(!report.drained);
    CLAIM(report.end_ns - report.start_ns < 50'000 * kMs);
    EQUAL(report.bytes_received, 0U);
}

CASE(what_nobody_reads_is_waited_for_no_longer_than_asked) {
    const Pair pair, unread;
    labkit::StreamConfig asked = pair.config();
    asked.receive_fd = unread.receive;
    asked.count = 1;
    asked.message_bytes = 10;
    asked.drain_ns = 20 * kMs;
    const labkit::StreamReport report = run(asked);
    EQUAL(report.bytes_sent, 10U);
    EQUAL(report.bytes_received, 0U);
    CLAIM(!report.drained);
    CLAIM(report.end_ns - report.written_ns >= 20 * kMs);
}

CASE(a_far_end_that_is_gone_ends_the_stream_with_its_errno) {
    const Pair pair, other;
    labkit::StreamConfig asked = pair.config();
    asked.duration_ns = 60'000 * kMs;
    shutdown(pair.receive, SHUT_RD);
    const labkit::StreamReport report = run(asked);
    EQUAL(report.send_errno.value_or(0), EPIPE);
    CLAIM(report.ended_by == labkit::EndedBy::kError);
}

CASE(a_reading_end_that_is_no_socket_is_refused) {
    const Pair pair;
    labkit::StreamConfig asked = pair.config();
    asked.count = 1;
    asked.receive_fd = -1;
    THROWS(std::system_error, run(asked));
}

CASE(a_stream_without_an_end_or_without_bytes_is_refused) {
    const Pair pair;
    labkit::StreamConfig asked = pair.config();
    THROWS(std::invalid_argument, run(asked));
    asked.count = 1;
    asked.message_bytes = 0;
    THROWS(std::invalid_argument, run(asked));
    asked.message_bytes = labkit::kMostMessageBytes + 1;
    THROWS(std::invalid_argument, run(asked));
    asked.message_bytes = 1;
    asked.interval_ns = 0;
    THROWS(std::invalid_argument, run(asked));
}

CASE(a_cpu_that_is_not_allowed_is_refused_for_either_end) {
    const Pair pair;
    labkit::StreamConfig asked = pair.config();
    asked.count = 1;
    asked.receive_cpu = 1 << 20;
    THROWS(std::invalid_argument, run(asked));
    asked.receive_cpu = std::nullopt;
    asked.send_cpu = 1 << 20;
    THROWS(std::invalid_argument, run(asked));
}
