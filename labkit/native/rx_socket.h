// A packet socket that is read by recvmmsg(), a batch a call.
#pragma once

#include <linux/if_packet.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <vector>

#include "rx.h"
#include "rx_capture.h"

namespace labkit {

class RxSocket {
  public:
    RxSocket(const RxConfig& config, std::size_t longest_frame);
    RxSocket(const RxSocket&) = delete;
    RxSocket& operator=(const RxSocket&) = delete;

    CaptureSocket& socket() { return socket_; }
    // Hands what one call reads to `arrivals`, or waits a little for it.
    void take(Arrivals& arrivals);

  private:
    // Where the kernel writes one message besides its bytes.
    struct Slot {
        iovec bytes{};
        sockaddr_ll from{};
        alignas(cmsghdr) std::uint8_t control[CMSG_SPACE(sizeof(tpacket_auxdata))]{};
    };

    void make_ready(std::size_t messages);

    CaptureSocket socket_;
    std::vector<std::uint8_t> bytes_;
    std::vector<Slot> slots_;
    std::vector<mmsghdr> messages_;
};

}  // namespace labkit
