#include "rx_ring.h"

#include <linux/if_packet.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "clock.h"

namespace labkit {
namespace {

[[noreturn]] void fail(const RxConfig& config) {
    throw std::system_error(errno, std::generic_category(),
                            "ring of " + std::to_string(config.blocks) + " blocks of " +
                                std::to_string(config.block_bytes) + " bytes");
}

std::optional<std::uint32_t> tag_of(const tpacket3_hdr& packet) {
    if ((packet.tp_status & TP_STATUS_VLAN_VALID) == 0) return std::nullopt;
    return std::uint32_t{packet.hv1.tp_vlan_tpid} << 16 | (packet.hv1.tp_vlan_tci & 0xffff);
}

void hand_over(const tpacket_hdr_v1& block, std::uint8_t* memory, Arrivals& arrivals) {
    std::uint8_t* at = memory + block.offset_to_first_pkt;
    for (std::uint32_t left = block.num_pkts; left > 0; --left) {
        const auto& packet = *reinterpret_cast<const tpacket3_hdr*>(at);
        const auto& from = *reinterpret_cast<const sockaddr_ll*>(at + TPACKET_ALIGN(sizeof packet));
        arrivals.frame({at + packet.tp_mac, packet.tp_snaplen, packet.tp_len, tag_of(packet),
                        from.sll_pkttype == PACKET_OUTGOING,
                        (packet.tp_status & TP_STATUS_CSUMNOTREADY) != 0});
        at += packet.tp_next_offset;
    }
}

}  // namespace

RxRing::RxRing(const RxConfig& config, std::size_t)
    : socket_(config.ifindex), block_bytes_(config.block_bytes), blocks_(config.blocks) {
    const int version = TPACKET_V3;
    tpacket_req3 request{};
    request.tp_block_size = config.block_bytes;
    request.tp_block_nr = config.blocks;
    request.tp_frame_size = config.block_bytes;  // frames of this version are as long as they are
    request.tp_frame_nr = config.blocks;
    request.tp_retire_blk_tov = config.retire_ms;
    if (setsockopt(socket_.fd(), SOL_PACKET, PACKET_VERSION, &version, sizeof version) != 0 ||
        setsockopt(socket_.fd(), SOL_PACKET, PACKET_RX_RING, &request, sizeof request) != 0) {
        fail(config);
    }
    const std::size_t bytes = std::size_t{block_bytes_} * blocks_;
    void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, socket_.fd(), 0);
    if (mapped == MAP_FAILED) fail(config);
    memory_ = static_cast<std::uint8_t*>(mapped);
}

RxRing::~RxRing() { munmap(memory_, std::size_t{block_bytes_} * blocks_); }

void RxRing::take(Arrivals& arrivals) {
    std::uint8_t* const memory = memory_ + std::size_t{next_} * block_bytes_;
    auto& block = reinterpret_cast<tpacket_block_desc*>(memory)->hdr.bh1;
    // what the kernel wrote before it gave the block away is seen only with acquire, and the reverse
    if ((__atomic_load_n(&block.block_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER) == 0) {
        socket_.wait();
        return;
    }
    arrivals.batch(monotonic_ns());
    hand_over(block, memory, arrivals);
    __atomic_store_n(&block.block_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
    next_ = next_ + 1 == blocks_ ? 0 : next_ + 1;
}

}  // namespace labkit
