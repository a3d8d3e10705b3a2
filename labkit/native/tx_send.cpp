#include <sys/socket.h>

#include <cerrno>
#include <stdexcept>

#include "tx_loop.h"

namespace labkit {
namespace {

class SendCall {
  public:
    SendCall(int fd, const FrameTable& table) : fd_(fd), table_(table) {}

    Taken call(std::size_t first, std::uint32_t) const {
        const iovec frame = table_.frame(first);
        return send(fd_, frame.iov_base, frame.iov_len, 0) < 0 ? Taken{1, errno} : Taken{1, 0};
    }

  private:
    const int fd_;
    const FrameTable& table_;
};

}  // namespace

TxReport tx_send(const FrameTable& table, const TxConfig& config, const StopFlag& stop, Progress& progress) {
    if (config.batch != 1) throw std::invalid_argument("send takes one frame a call: batch must be 1");
    const PacketSocket socket(config.ifindex, config.qdisc_bypass);
    SendCall sender(socket.fd(), table);
    return run_pinned(socket, sender, table, config, stop, progress);
}

}  // namespace labkit
