#include <sys/socket.h>

#include <cerrno>
#include <stdexcept>

#include "stamped_frames.h"
#include "tx_loop.h"

namespace labkit {
namespace {

class SendCall {
  public:
    SendCall(int fd, const FrameTable& table, StampedFrames* stamped)
        : fd_(fd), table_(table), stamped_(stamped) {}

    Taken call(std::size_t first, std::uint32_t) const {
        if (stamped_ != nullptr) stamped_->stamp(first, 1);
        const iovec frame = stamped_ != nullptr ? stamped_->frame(first) : table_.frame(first);
        return send(fd_, frame.iov_base, frame.iov_len, 0) < 0 ? Taken{1, errno} : Taken{1, 0};
    }

  private:
    const int fd_;
    const FrameTable& table_;
    StampedFrames* const stamped_;
};

}  // namespace

TxReport tx_send(const FrameTable& table, const TxConfig& config, const StopFlag& stop, Progress& progress) {
    if (config.batch != 1) throw std::invalid_argument("send takes one frame a call: batch must be 1");
    const PacketSocket socket(config.ifindex, config.qdisc_bypass);
    std::optional<StampedFrames> stamped;
    if (config.stamp) stamped.emplace(table, 1);
    SendCall sender(socket.fd(), table, stamped ? &*stamped : nullptr);
    return run_pinned(socket, sender, table, config, stop, progress, stamped ? &stamped->stamper() : nullptr);
}

}  // namespace labkit
