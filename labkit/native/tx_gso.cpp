#include <linux/if_packet.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "super_packet.h"
#include "tx_loop.h"

namespace labkit {
namespace {

class GsoCall {
  public:
    GsoCall(const PacketSocket& socket, const FrameTable& table, std::uint32_t batch, const Stamper* stamper)
        : fd_(socket.fd()), limit_(socket), stamper_(stamper) {
        packets_.reserve(table.size());
        std::size_t longest = 0;
        for (std::size_t i = 0; i < table.size(); ++i) {
            const SuperPacket& packet = packets_.emplace_back(table.frame(i), i);
            longest = std::max(longest, packet.payload().iov_len);
            if (packet.most_segments() < batch) {
                throw std::invalid_argument("frame " + std::to_string(i) + ": " + std::to_string(batch) +
                                            " segments of it make no IP packet; ask for batch " +
                                            std::to_string(packet.most_segments()) + " or less");
            }
        }
        payloads_.resize(longest * batch);
        const iovec first = packets_.front().payload();
        fill(first, batch);
        for (const SuperPacket& packet : packets_) {
            const iovec other = packet.payload();
            alike_ = alike_ && other.iov_len == first.iov_len &&
                     std::memcmp(other.iov_base, first.iov_base, first.iov_len) == 0;
        }
    }

    // The loop's place in the table is of single frames; here each of them leaves `frames` times in a row.
    Taken call(std::size_t, std::uint32_t frames) {
        SuperPacket& packet = packets_[next_];
        const iovec payload = packet.payload();
        // the kernel holds no segment against the MTU (packet_snd), and the peer would drop it
        if (!limit_.takes(packet.header_bytes() + payload.iov_len, 0)) return refused(frames, EMSGSIZE);
        packet.set_segments(frames);
        if (!alike_) fill(payload, frames);
        if (stamper_ != nullptr) stamp(payload.iov_len, frames);
        iovec parts[] = {packet.head(), {payloads_.data(), payload.iov_len * frames}};
        msghdr message{};
        message.msg_iov = parts;
        message.msg_iovlen = 2;
        if (sendmsg(fd_, &message, 0) < 0) return refused(frames, errno);
        step();
        handed_over_ += 1;
        return {frames, 0};
    }

    std::uint64_t handed_over() const { return handed_over_; }

  private:
    void fill(iovec payload, std::uint32_t segments) {
        std::uint8_t* end = payloads_.data();
        for (std::uint32_t i = 0; i < segments; ++i, end += payload.iov_len)
            std::memcpy(end, payload.iov_base, payload.iov_len);
    }

    void stamp(std::size_t payload_bytes, std::uint32_t segments) {
        for (std::uint32_t i = 0; i < segments; ++i)
            stamper_->write_payload(&payloads_[i * payload_bytes], i);
    }

    Taken refused(std::uint32_t frames, int error) {
        // every frame has been looked at, so the kernel means the offload, and will at the next one
        if (error == EINVAL) {
            throw std::system_error(error, std::generic_category(),
                                    "super-packet of " + std::to_string(frames) + " segments");
        }
        if (error != EINTR && error != EAGAIN) step();
        return {frames, error};
    }

    void step() { next_ = next_ + 1 < packets_.size() ? next_ + 1 : 0; }

    const int fd_;
    LengthLimit limit_;
    const Stamper* const stamper_;
    std::vector<SuperPacket> packets_;
    std::vector<std::uint8_t> payloads_;  // one payload, as often as a super-packet has segments
    bool alike_ = true;                   // every frame of the table has this payload
    std::size_t next_ = 0;
    std::uint64_t handed_over_ = 0;
};

}  // namespace

TxReport tx_gso(const FrameTable& table, const TxConfig& config, const StopFlag& stop, Progress& progress) {
    if (config.batch < 1 || config.batch > kMaxSegments) {
        throw std::invalid_argument("gso takes 1 to 128 segments a super-packet");
    }
    if (config.qdisc_bypass) {
        throw std::invalid_argument("gso goes through the qdisc: the bypass drops segmented lists");
    }
    std::optional<Stamper> stamper;
    if (config.stamp) stamper.emplace(table);
    const PacketSocket socket(config.ifindex, false);
    const int on = 1;
    if (setsockopt(socket.fd(), SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) != 0) {
        throw std::system_error(errno, std::generic_category(), "PACKET_VNET_HDR");
    }
    Stamper* const stamps = stamper ? &*stamper : nullptr;
    GsoCall sender(socket, table, config.batch, stamps);
    TxConfig together = config;
    together.even = false;
    TxReport report = run_pinned(socket, sender, table, together, stop, progress, stamps);
    report.super_packets = sender.handed_over();
    return report;
}

}  // namespace labkit
