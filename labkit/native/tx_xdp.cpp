#include <linux/if_ether.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "bpf_code.h"
#include "live_program.h"
#include "parked_program.h"
#include "stamp.h"
#include "tx_loop.h"
#include "wire_words.h"

namespace labkit {
namespace {

constexpr std::uint32_t kPreparedTogether = 64;  // kernel: NAPI_POLL_WEIGHT, its own choice

// Whether every frame has an 802.1Q tag, for which a frame may be longer than the MTU allows.
bool all_tagged(const FrameTable& table) {
    for (std::size_t i = 0; i < table.size(); ++i) {
        const iovec frame = table.frame(i);
        const auto* bytes = static_cast<const std::uint8_t*>(frame.iov_base);
        if (frame.iov_len < ETH_HLEN || word(bytes + 12) != ETH_P_8021Q) return false;
    }
    return true;
}

// The device that frames are redirected to. What it does with them is told to nobody, so what is wrong with
// it is looked for before a call. A packet socket would know, too, but closing one waits for other CPUs.
class Device {
  public:
    explicit Device(int ifindex) : ifindex_(ifindex), socket_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
        if (socket_.fd() < 0) throw std::system_error(errno, std::generic_category(), "socket");
        if (const int error = refuses(0); error != 0 && error != ENETDOWN)
            throw std::system_error(error, std::generic_category(), "interface " + std::to_string(ifindex));
    }

    // The errno with which a packet socket would refuse a frame of so many bytes, tags that may be left out
    // not counted; 0 when the frame may go.
    int refuses(std::size_t frame_bytes) const {
        ifreq request{};
        request.ifr_ifindex = ifindex_;
        if (ioctl(socket_.fd(), SIOCGIFNAME, &request) != 0) return errno;
        if (ioctl(socket_.fd(), SIOCGIFFLAGS, &request) != 0) return errno;
        if ((request.ifr_flags & IFF_UP) == 0) return ENETDOWN;
        if (ioctl(socket_.fd(), SIOCGIFMTU, &request) != 0) return errno;
        return frame_bytes > static_cast<std::size_t>(request.ifr_mtu) + ETH_HLEN ? EMSGSIZE : 0;
    }

    // No frame of an XDP program meets the queueing discipline.
    bool qdisc_bypass() const { return true; }

  private:
    const int ifindex_;
    const bpf::Handle socket_;
};

// Whether this kernel sends live frames at all; this one goes nowhere.
bool has_live_frames() {
    const bpf::Program drops({bpf::move(bpf::Reg::r0, XDP_DROP), bpf::leave()}, "labkit_probe");
    const std::uint8_t frame[ETH_ZLEN] = {};
    return drops.send_live(frame, sizeof frame, 1, 1) == 0;
}

// Stamps of a table's frames: where they all have theirs, and the number of each that its row holds.
struct TableStamps {
    LiveStamp place;
    std::vector<std::uint32_t> sums;
};

std::optional<TableStamps> stamps_of(const FrameTable& table, bool asked, bool due) {
    if (!asked) return std::nullopt;
    const StampPlace first = stamp_place(table.frame(0), 0);
    TableStamps stamps{{first.payload_at, first.summed, due}, {}};
    for (std::size_t i = 0; i < table.size(); ++i) {
        const StampPlace place = stamp_place(table.frame(i), i);
        if (place.payload_at != first.payload_at || place.summed != first.summed) {
            throw std::invalid_argument(
                "frame " + std::to_string(i) +
                " has its payload at another byte than frame 0, or only one of them has "
                "a UDP checksum; one program stamps them all alike, take engine 'af_xdp'");
        }
        stamps.sums.push_back(place.sum + (kStampMagic >> 16) + (kStampMagic & 0xffff));
    }
    return stamps;
}

class LiveCall {
  public:
    LiveCall(const Device& device, const FrameTable& table, const TxConfig& config, const Progress& progress)
        : device_(device),
          frame_(table.frame(0)),
          counted_bytes_(frame_.iov_len - (all_tagged(table) ? kVlanTagBytes : 0)),
          rate_pps_(config.rate_pps),
          progress_(progress),
          stamps_(stamps_of(table, config.stamp, config.rate_pps.has_value())),
          rows_(table, stamps_ ? stamps_->sums : std::vector<std::uint32_t>{}),
          state_(bpf::Map::array(sizeof(LiveState), 1)),
          row_bytes_(map_of(rows_)),
          program_(live_program(rows_, config.ifindex, state_.fd(), row_bytes_ ? row_bytes_->fd() : -1,
                                stamps_ ? std::optional(stamps_->place) : std::nullopt),
                   "labkit_live"),
          parked_(program_) {}

    // The kernel tells how a call ended but not how far it came; the program counts.
    Taken call(std::size_t, std::uint32_t frames) {
        const int refused = device_.refuses(counted_bytes_);
        if (refused != 0) return {refused == EMSGSIZE ? frames : 1, refused};
        if (stamps_ && !dated_) set_date();
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

    // Just before the first frame, for the clocks drift apart.
    void set_date() {
        const std::int64_t now_ns = monotonic_ns();
        LiveState state;
        state.date_ns = realtime_ns() - now_ns;
        if (rate_pps_) {
            state.date_ns += progress_.start_ns().value();
            state.frame_ns = static_cast<std::uint64_t>(1e9 / *rate_pps_ * (1 << kFrameNsBits));
        }
        state_.update(0, &state);
        dated_ = true;
    }

    [[noreturn]] void explain() const {
        if (!has_live_frames()) throw std::system_error(EINVAL, std::generic_category(), "XDP live frames");
        throw std::invalid_argument(
            "frames of " + std::to_string(frame_.iov_len) +
            " bytes are no live frames: they have 14 bytes or more and lie in one page "
            "with what the kernel keeps there, some 3500; take engine 'af_xdp' for others");
    }

    const Device& device_;
    const iovec frame_;
    const std::size_t counted_bytes_;
    const std::optional<double> rate_pps_;
    const Progress& progress_;
    const std::optional<TableStamps> stamps_;
    const FrameRows rows_;
    const bpf::Map state_;
    const std::unique_ptr<bpf::Map> row_bytes_;
    const bpf::Program program_;
    const bpf::ParkedProgram parked_;
    std::uint64_t made_ = 0;
    bool dated_ = false;
};

}  // namespace

TxReport tx_xdp(const FrameTable& table, const TxConfig& config, const StopFlag& stop, Progress& progress) {
    if (config.batch < 1 || config.batch > kMaxLiveFrames) {
        throw std::invalid_argument("xdp_live takes 1 to " + std::to_string(kMaxLiveFrames) +
                                    " frames a call");
    }
    const Device device(config.ifindex);
    LiveCall sender(device, table, config, progress);
    return run_pinned(device, sender, table, config, stop, progress);
}

}  // namespace labkit
