#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <stdexcept>

#include "clock.h"
#include "tx_loop.h"
#include "xsk_sender.h"
#include "xsk_socket.h"

namespace labkit {
namespace {

// A device that holds frames back (interrupts as seldom as ethtool allows: 65 ms) is waited for; a stop
// leaves it the half of 10 ms.
constexpr std::int64_t kFinishNs = 100'000'000;
constexpr std::int64_t kFinishStoppedNs = 5'000'000;

bool is_power_of_two(std::uint32_t value) { return value != 0 && (value & (value - 1)) == 0; }

void check(const FrameTable& table, const TxConfig& config) {
    const XskGeometry& asked = config.xsk;
    if (config.batch < 1 || config.batch > kMaxBatch) {
        throw std::invalid_argument("af_xdp takes 1 to 1024 frames a wake-up");
    }
    if (!is_power_of_two(asked.ring_frames) || asked.ring_frames < config.batch) {
        throw std::invalid_argument("the ring is a power of two and holds a batch");
    }
    if (asked.slot_bytes == 0 || asked.chunk_bytes % asked.slot_bytes != 0 || asked.slots == 0 ||
        asked.memory_bytes < std::uint64_t{asked.slots} * asked.slot_bytes) {
        throw std::invalid_argument("a chunk holds whole slots, and the memory all of them");
    }
    for (std::size_t i = 0; i < table.size(); ++i) {
        if (table.frame(i).iov_len > asked.slot_bytes) {
            throw std::invalid_argument("a slot of the memory is too small for a frame");
        }
    }
}

class XskKernel {
  public:
    // An AF_XDP socket does not know the MTU (SIOCGIFMTU: EOPNOTSUPP); a packet socket does.
    XskKernel(const XskSocket& socket, const PacketSocket& beside)
        : fd_(socket.fd()), zero_copy_(socket.zero_copy()), limit_(beside) {}

    int kick() const { return sendto(fd_, nullptr, 0, MSG_DONTWAIT, nullptr, 0) < 0 ? errno : 0; }
    bool takes(std::size_t bytes, std::size_t more) { return limit_.takes(bytes, more); }
    bool zero_copy() const { return zero_copy_; }

  private:
    const int fd_;
    const bool zero_copy_;
    LengthLimit limit_;
};

TxReport stopped_before_the_first_frame() {
    TxReport report;
    report.start_ns = report.end_ns = monotonic_ns();
    report.ended_by = EndedBy::kStop;
    return report;
}

}  // namespace

TxReport tx_xsk(const FrameTable& table, const TxConfig& config, const StopFlag& stop, Progress& progress) {
    check(table, config);
    std::optional<Stamper> stamper;
    if (config.stamp) stamper.emplace(table);
    Stamper* const stamps = stamper ? &*stamper : nullptr;
    const PacketSocket beside(config.ifindex, false);
    const XskSocket socket(config, stop);
    TxReport report = stopped_before_the_first_frame();
    if (!socket.stopped()) {
        XskKernel kernel(socket, beside);
        XskSender<XskKernel> sender(socket.rings(), socket.memory(), config.xsk, table, kernel, stamps);
        report = run_pinned(beside, sender, table, config, stop, progress, stamps);
        sender.finish(report, monotonic_ns() + (stop.is_set() ? kFinishStoppedNs : kFinishNs));
        progress.store(report.sent, report.refused);
    }
    report.qdisc_bypass = true;  // whatever was asked: the kernel hands these frames to the driver itself
    report.zero_copy = socket.zero_copy();
    return report;
}

}  // namespace labkit
