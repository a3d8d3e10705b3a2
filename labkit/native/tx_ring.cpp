#include <sys/mman.h>
#include <sys/socket.h>

#include <cerrno>
#include <stdexcept>
#include <string>
#include <system_error>

#include "ring_slots.h"

namespace labkit {
namespace {

[[noreturn]] void fail(const RingGeometry& ring) {
    throw std::system_error(
        errno, std::generic_category(),
        "ring of " + std::to_string(ring.slots) + " slots of " + std::to_string(ring.slot_bytes) + " bytes");
}

void check(const TxConfig& config) {
    const RingGeometry& ring = config.ring;
    if (config.batch < 1 || config.batch > kMaxBatch) {
        throw std::invalid_argument("tx_ring takes 1 to 1024 frames a kick");
    }
    if (ring.slot_bytes == 0 || ring.block_bytes % ring.slot_bytes != 0) {
        throw std::invalid_argument("a block of the ring holds whole slots");
    }
    const std::uint32_t a_block = ring.block_bytes / ring.slot_bytes;
    if (a_block == 0 || ring.slots % a_block != 0 || ring.slots < config.batch) {
        throw std::invalid_argument("the ring is whole blocks and holds a batch");
    }
}

// The kernel's ring, shared with this process.
class MappedRing {
  public:
    MappedRing(int fd, const RingGeometry& ring) : bytes_(std::size_t{ring.slots} * ring.slot_bytes) {
        const int version = TPACKET_V2;
        const tpacket_req request{ring.block_bytes, static_cast<unsigned>(bytes_ / ring.block_bytes),
                                  ring.slot_bytes, ring.slots};
        if (setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version) != 0 ||
            setsockopt(fd, SOL_PACKET, PACKET_TX_RING, &request, sizeof request) != 0) {
            fail(ring);
        }
        memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (memory_ == MAP_FAILED) fail(ring);
    }
    ~MappedRing() { munmap(memory_, bytes_); }
    MappedRing(const MappedRing&) = delete;
    MappedRing& operator=(const MappedRing&) = delete;

    std::uint8_t* memory() const { return static_cast<std::uint8_t*>(memory_); }

  private:
    const std::size_t bytes_;
    void* memory_;
};

class PacketKernel {
  public:
    explicit PacketKernel(const PacketSocket& socket) : fd_(socket.fd()), limit_(socket) {}

    // Without MSG_DONTWAIT the call sleeps until every frame has left.
    int kick() {
        const int error = send(fd_, nullptr, 0, MSG_DONTWAIT) < 0 ? errno : 0;
        if (error == EMSGSIZE) limit_.look_again();
        return error;
    }
    // The kernel writes a line to its log for each frame beyond this; the answer is the same (EMSGSIZE).
    bool takes(std::size_t bytes) { return limit_.takes(bytes, kVlanTagBytes); }

  private:
    const int fd_;
    LengthLimit limit_;
};

}  // namespace

TxReport tx_ring(const FrameTable& table, const TxConfig& config, const StopFlag& stop, Progress& progress) {
    check(config);
    for (std::size_t i = 0; i < table.size(); ++i) {
        if (table.frame(i).iov_len + kSlotDataOffset > config.ring.slot_bytes) {
            throw std::invalid_argument("a slot of the ring is too small for a frame");
        }
    }
    std::optional<Stamper> stamper;
    if (config.stamp) stamper.emplace(table);
    const PacketSocket socket(config.ifindex, config.qdisc_bypass);
    const MappedRing ring(socket.fd(), config.ring);
    PacketKernel kernel(socket);
    Stamper* const stamps = stamper ? &*stamper : nullptr;
    RingSlots<PacketKernel> sender(ring.memory(), config.ring, table, kernel, stamps);
    return run_pinned(socket, sender, table, config, stop, progress, stamps);
}

}  // namespace labkit
