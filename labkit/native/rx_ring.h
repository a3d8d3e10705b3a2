// A receive ring in TPACKET_V3: the kernel fills blocks and hands one over when it is full, or after a time.
#pragma once

#include "rx.h"
#include "rx_capture.h"

namespace labkit {

class RxRing {
  public:
    // Throws std::system_error; ENOMEM and EINVAL where the kernel does not make such a ring.
    explicit RxRing(const RxConfig& config, std::size_t longest_frame);
    ~RxRing();
    RxRing(const RxRing&) = delete;
    RxRing& operator=(const RxRing&) = delete;

    CaptureSocket& socket() { return socket_; }
    // Hands the next block to `arrivals`, or waits a little for it.
    void take(Arrivals& arrivals);

  private:
    CaptureSocket socket_;
    const std::uint32_t block_bytes_;
    const std::uint32_t blocks_;
    std::uint8_t* memory_ = nullptr;
    std::uint32_t next_ = 0;
};

}  // namespace labkit
