// A packet socket that only receives, alone or as one of a group that shares the frames of a device.
#pragma once

#include <cstdint>
#include <optional>

namespace labkit {

// Frames since the socket was started.
struct CaptureCounts {
    std::uint64_t kept = 0;     // for the reader
    std::uint64_t dropped = 0;  // for want of room
};

class CaptureSocket {
  public:
    // AF_PACKET, SOCK_RAW, without a frame as yet. Throws std::system_error with the kernel's errno.
    explicit CaptureSocket(int ifindex);
    ~CaptureSocket();
    CaptureSocket(const CaptureSocket&) = delete;
    CaptureSocket& operator=(const CaptureSocket&) = delete;

    int fd() const { return fd_; }

    // From now on frames of every protocol arrive.
    void start(bool promiscuous);

    // Joins `group`, or begins one; frames of a flow go to the same socket of it (PACKET_FANOUT_HASH).
    std::uint32_t share(std::optional<std::uint32_t> group);

    // What the kernel has counted; it forgets with each call, so this adds up.
    CaptureCounts counts();

    // Waits until there is something to read, for a few milliseconds at most.
    void wait() const;

  private:
    int fd_;
    int ifindex_;
    CaptureCounts counts_;
};

}  // namespace labkit
