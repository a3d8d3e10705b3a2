// A packet socket that only sends.
#pragma once

namespace labkit {

class PacketSocket {
  public:
    // AF_PACKET, SOCK_RAW, bound to ifindex. Throws std::system_error with the kernel's errno.
    PacketSocket(int ifindex, bool qdisc_bypass);
    ~PacketSocket();
    PacketSocket(const PacketSocket&) = delete;
    PacketSocket& operator=(const PacketSocket&) = delete;

    int fd() const { return fd_; }
    // Whether frames skip the queueing discipline: asked for, and granted by this kernel.
    bool qdisc_bypass() const { return qdisc_bypass_; }

  private:
    int fd_;
    bool qdisc_bypass_ = false;
};

}  // namespace labkit
