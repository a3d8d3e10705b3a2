// A packet socket that only sends.
#pragma once

#include <cstddef>

#include "wire_words.h"

namespace labkit {

// As much of a send buffer as this process may ask for.
void raise_send_buffer(int fd);

// Closes on a thread of its own, for whoever stopped a run waits for its end and the kernel first waits until
// no CPU may still use the socket (synchronize_net): 10 to 20 ms of a packet socket, twice as long with a
// ring (packet_release), and some 10 ms of an AF_XDP socket with a queue (xsk_unbind_dev).
void close_apart(int fd);

class PacketSocket {
  public:
    // AF_PACKET, SOCK_RAW, bound to ifindex. Throws std::system_error with the kernel's errno.
    PacketSocket(int ifindex, bool qdisc_bypass);
    ~PacketSocket() { close_apart(fd_); }
    PacketSocket(const PacketSocket&) = delete;
    PacketSocket& operator=(const PacketSocket&) = delete;

    int fd() const { return fd_; }
    // Whether frames skip the queueing discipline: asked for, and granted by this kernel.
    bool qdisc_bypass() const { return qdisc_bypass_; }

    // Longest frame without a tag that the device's MTU lets out now; 0 when the kernel does not tell.
    std::size_t longest_frame() const;

  private:
    int fd_;
    int ifindex_;
    bool qdisc_bypass_ = false;
};

// What an engine must refuse itself because the kernel does not look, or says it at a price.
class LengthLimit {
  public:
    explicit LengthLimit(const PacketSocket& socket) : socket_(socket), bytes_(socket.longest_frame()) {}

    // To be called when the kernel refused a length: the MTU may have been lowered.
    void look_again() { bytes_ = socket_.longest_frame(); }

    // Whether a frame of `bytes` is at most `more` longer than the MTU allows; a raised MTU is noticed.
    bool takes(std::size_t bytes, std::size_t more) {
        if (bytes <= bytes_ + more) return true;
        look_again();
        return bytes_ == 0 || bytes <= bytes_ + more;  // a device that is gone: let the call say so
    }

  private:
    const PacketSocket& socket_;
    std::size_t bytes_;
};

}  // namespace labkit
