#include <linux/if_ether.h>
#include <net/if.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>

#include "bpf_code.h"
#include "live_program.h"
#include "parked_program.h"
#include "tx_loop.h"

namespace labkit {
namespace {

constexpr std::uint32_t kPreparedTogether = 64;  // kernel: NAPI_POLL_WEIGHT, its own choice

// Whether every frame has an 802.1Q tag, for which a frame may be longer than the MTU allows.
bool all_tagged(const FrameTable& table) {
    for (std::size_t i = 0; i < table.size(); ++i) {
        const iovec frame = table.frame(i);
        const auto* bytes = static_cast<const std::uint8_t*>(frame.iov_base);
        if (frame.iov_len < ETH_HLEN || bytes[12] != ETH_P_8021Q >> 8 || bytes[13] != 0) return false;
    }
    return true;
}

// Whether this kernel sends live frames at all; this one goes nowhere.
bool has_live_frames() {
    const bpf::Program drops({bpf::move(bpf::Reg::r0, XDP_DROP), bpf::leave()}, "labkit_probe");
    const std::uint8_t frame[ETH_ZLEN] = {};
    return drops.send_live(frame, sizeof frame, 1, 1) == 0;
}

class LiveCall {
  public:
    LiveCall(const PacketSocket& socket, const FrameTable& table, const TxConfig& config)
        : fd_(socket.fd()),
          ifindex_(config.ifindex),
          limit_(socket),
          beyond_mtu_(all_tagged(table) ? kVlanTagBytes : 0),
          frame_(table.frame(0)),
          rows_(table),
          state_(bpf::Map::array(sizeof(LiveState), 1)),
          row_bytes_(map_of(rows_)),
          program_(live_program(rows_, config.ifindex, state_.fd(), row_bytes_ ? row_bytes_->fd() : -1, {}),
                   "labkit_live"),
          parked_(program_) {}

    // The kernel tells how a call ended but not how far it came; the program counts.
    Taken call(std::size_t, std::uint32_t frames) {
        if (!limit_.takes(frame_.iov_len, beyond_mtu_)) return {frames, EMSGSIZE};
        if (const int error = device_error()) return {1, error};
        const int error = program_.send_live(frame_.iov_base, static_cast<std::uint32_t>(frame_.iov_len),
                                             frames, kPreparedTogether);
        if (error == 0) {
            made_ += frames;
            return {frames, 0};
        }
        if (error == EINVAL) explain();
        const std::uint64_t made = state_.counters(0)[0];
        const auto moved = static_cast<std::uint32_t>(made - made_);
        made_ = made;
        return moved > 0 ? Taken{moved, 0} : Taken{1, error};
    }

  private:
    static std::unique_ptr<bpf::Map> map_of(const FrameRows& rows) {
        if (rows.stride() == 0) return nullptr;
        // one row more than there are: the verifier knows where a row may begin, not that it is a whole one
        std::vector<std::uint8_t> bytes = rows.rows();
        bytes.resize(bytes.size() + rows.stride());
        auto map = std::make_unique<bpf::Map>(bpf::Map::array(static_cast<std::uint32_t>(bytes.size()), 1));
        map->update(0, bytes.data());
        return map;
    }

    // What happens to a redirected frame is told to nobody, so a device that is gone or down is looked for.
    int device_error() const {
        ifreq request{};
        request.ifr_ifindex = ifindex_;
        if (ioctl(fd_, SIOCGIFNAME, &request) != 0 || ioctl(fd_, SIOCGIFFLAGS, &request) != 0) return errno;
        return (request.ifr_flags & IFF_UP) != 0 ? 0 : ENETDOWN;
    }

    [[noreturn]] void explain() const {
        if (!has_live_frames()) throw std::system_error(EINVAL, std::generic_category(), "XDP live frames");
        throw std::invalid_argument(
            "frames of " + std::to_string(frame_.iov_len) +
            " bytes are no live frames: they have 14 bytes or more and lie in one page "
            "with what the kernel keeps there, some 3500; take engine 'af_xdp' for others");
    }

    const int fd_;
    const int ifindex_;
    LengthLimit limit_;
    const std::size_t beyond_mtu_;
    const iovec frame_;
    const FrameRows rows_;
    const bpf::Map state_;
    const std::unique_ptr<bpf::Map> row_bytes_;
    const bpf::Program program_;
    const bpf::ParkedProgram parked_;
    std::uint64_t made_ = 0;
};

}  // namespace

TxReport tx_xdp(const FrameTable& table, const TxConfig& config, const StopFlag& stop, Progress& progress) {
    if (config.batch < 1 || config.batch > kMaxLiveFrames) {
        throw std::invalid_argument("xdp_live takes 1 to " + std::to_string(kMaxLiveFrames) +
                                    " frames a call");
    }
    const PacketSocket socket(config.ifindex, true);
    LiveCall sender(socket, table, config);
    TxReport report = run_pinned(socket, sender, table, config, stop, progress);
    report.qdisc_bypass = true;
    return report;
}

}  // namespace labkit
