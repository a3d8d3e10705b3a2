// A stream of TCP over loopback, in a private network.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>

#include "allocations.h"
#include "harness.h"
#include "stop_flag.h"
#include "tcp_stream.h"

namespace {

// Both ends of a connection to 127.0.0.1.
struct Connection {
    Connection() {
        const int listening = socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t bytes = sizeof address;
        auto* const named = reinterpret_cast<sockaddr*>(&address);
        send = socket(AF_INET, SOCK_STREAM, 0);
        const bool connected = bind(listening, named, bytes) == 0 && listen(listening, 1) == 0 &&
                               getsockname(listening, named, &bytes) == 0 && connect(send, named, bytes) == 0;
        receive = connected ? accept(listening, nullptr, nullptr) : -1;
        close(listening);
        if (receive < 0) throw std::runtime_error("no connection to 127.0.0.1");
    }
    ~Connection() {
        close(send);
        close(receive);
    }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    labkit::StreamConfig config() const {
        labkit::StreamConfig asked;
        asked.send_fd = send;
        asked.receive_fd = receive;
        return asked;
    }

    int send = -1, receive = -1;
};

// How often the sender's thread asks for memory in a stream of so many writes.
std::size_t allocations_of(std::uint64_t writes) {
    const Connection connection;
    labkit::StreamConfig asked = connection.config();
    asked.count = writes;
    const labkit::StopFlag stop;
    return allocations::of([&] { EQUAL(labkit::tcp_stream(asked, stop).bytes_received, writes * 16384U); });
}

}  // namespace

CASE(a_tcp_stream_arrives_whole_and_tells_of_its_connection) {
    const Connection connection;
    labkit::StreamConfig asked = connection.config();
    asked.count = 1000;
    const labkit::StopFlag stop;
    const labkit::StreamReport report = labkit::tcp_stream(asked, stop);
    EQUAL(report.bytes_sent, 16'384'000U);
    EQUAL(report.bytes_received, 16'384'000U);
    CLAIM(report.tcp.has_value());
    CLAIM(report.tcp->mss_bytes > 0);
    CLAIM(report.tcp->cwnd_segments > 0);
}

CASE(a_stream_asks_for_no_memory_for_a_write) {
    const std::size_t few = allocations_of(10);
    CLAIM(few > 0);
    EQUAL(allocations_of(4000), few);
}
