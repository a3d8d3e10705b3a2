#include <sys/socket.h>

#include <cerrno>
#include <stdexcept>
#include <vector>

#include "stamped_frames.h"
#include "tx_loop.h"

namespace labkit {
namespace {

// Headers for the whole table and, behind it, its first batch - 1 frames again: every batch is then one
// stretch of prepared headers, wherever in the table it begins, and the loop writes nothing.
class SendmmsgCall {
  public:
    SendmmsgCall(int fd, const FrameTable& table, std::uint32_t batch, StampedFrames* stamped)
        : fd_(fd), stamped_(stamped), frames_(table.size()), messages_(table.size() + batch - 1) {
        for (std::size_t i = 0; i < frames_.size(); ++i) frames_[i] = table.frame(i);
        for (std::size_t i = 0; i < messages_.size(); ++i) {
            messages_[i].msg_hdr.msg_iov =
                stamped != nullptr ? &stamped->frame(i) : &frames_[i % frames_.size()];
            messages_[i].msg_hdr.msg_iovlen = 1;
        }
    }

    Taken call(std::size_t first, std::uint32_t frames) {
        if (stamped_ != nullptr) stamped_->stamp(first, frames);
        const int done = sendmmsg(fd_, &messages_[first], frames, 0);
        return done < 0 ? Taken{1, errno} : Taken{static_cast<std::uint32_t>(done), 0};
    }

  private:
    const int fd_;
    StampedFrames* const stamped_;
    std::vector<iovec> frames_;
    std::vector<mmsghdr> messages_;
};

}  // namespace

TxReport tx_sendmmsg(const FrameTable& table, const TxConfig& config, const StopFlag& stop,
                     Progress& progress) {
    if (config.batch < 1 || config.batch > kMaxBatch) {
        throw std::invalid_argument("sendmmsg takes 1 to 1024 frames a call");
    }
    const PacketSocket socket(config.ifindex, config.qdisc_bypass);
    std::optional<StampedFrames> stamped;
    if (config.stamp) stamped.emplace(table, config.batch);
    SendmmsgCall sender(socket.fd(), table, config.batch, stamped ? &*stamped : nullptr);
    return run_pinned(socket, sender, table, config, stop, progress, stamped ? &stamped->stamper() : nullptr);
}

}  // namespace labkit
