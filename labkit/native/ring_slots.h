// The slots of a TX_RING in TPACKET_V2: filled in order, handed over by one kick, counted by their states.
// How the kernel is kicked (Kernel) is a template argument: a system call in the engine, a fake in the tests.
//
// The kernel walks from a head of its own and stops at the first slot that does not ask to be sent
// (tpacket_snd). So slots are filled strictly in order from that head, and what a kick left behind is taken
// back: the next call fills the same slots again, and a frame that the kernel refuses never strands those
// behind it. PACKET_LOSS stays off: with it the kernel hands a refused frame's slot back as if it had been
// sent.
#pragma once

#include <linux/if_packet.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "clock.h"
#include "frame_table.h"
#include "tx_loop.h"

namespace labkit {

// Where a frame's bytes begin in its slot: sockaddr_ll is for receivers (packet_mmap.rst).
constexpr std::size_t kSlotDataOffset = TPACKET2_HDRLEN - sizeof(sockaddr_ll);

// Looks at a slot that is still on its way before the loop looks at its stop flag: some 50 us.
constexpr int kSlotLooks = 1024;

template <class Kernel>
class RingSlots {
  public:
    // `kernel.kick()` gives 0 or an errno, `kernel.takes(bytes)` whether a frame is worth handing over.
    // A slot is stamped only while it is ours: the kernel may still read one that is on its way.
    RingSlots(std::uint8_t* ring, const RingGeometry& geometry, const FrameTable& table, Kernel& kernel,
              const Stamper* stamper = nullptr)
        : ring_(ring),
          slots_(geometry.slots),
          slot_bytes_(geometry.slot_bytes),
          table_(table),
          kernel_(kernel),
          stamper_(stamper),
          holds_(geometry.slots, std::numeric_limits<std::size_t>::max()) {}

    Taken call(std::size_t first, std::uint32_t frames) {
        if (!kernel_.takes(table_.frame(first).iov_len)) return {1, EMSGSIZE};
        // slots come back in order, or nearly so: behind the last one all are free
        if (!comes_free(place(frames - 1))) return {0, EAGAIN, 0};
        const std::uint32_t filled = fill(first, frames);
        if (filled == 0) return {0, EAGAIN, 0};
        const int error = kernel_.kick();
        const std::uint32_t taken = taken_of(filled);
        head_ = place(taken);
        return taken > 0 ? Taken{taken, 0} : Taken{1, error != 0 ? error : EAGAIN};
    }

  private:
    std::uint32_t place(std::uint32_t ahead) const {
        const std::uint32_t at = head_ + ahead;
        return at >= slots_ ? at - slots_ : at;
    }

    std::uint8_t* slot(std::uint32_t at) const { return ring_ + std::size_t{at} * slot_bytes_; }
    tpacket2_hdr* header(std::uint32_t at) const { return reinterpret_cast<tpacket2_hdr*>(slot(at)); }
    std::uint32_t status(std::uint32_t at) const {
        return __atomic_load_n(&header(at)->tp_status, __ATOMIC_ACQUIRE);
    }
    void set_status(std::uint32_t at, std::uint32_t status) const {
        __atomic_store_n(&header(at)->tp_status, status, __ATOMIC_RELEASE);
    }

    // Spins: a sender that sleeps would leave a fast device idle until it wakes.
    bool comes_free(std::uint32_t at) const {
        for (int look = 0; look < kSlotLooks; ++look) {
            if (status(at) == TP_STATUS_AVAILABLE) return true;
            relax();
        }
        return false;
    }

    std::uint32_t fill(std::size_t index, std::uint32_t frames) {
        std::uint32_t filled = 0;
        for (; filled < frames; ++filled, ++index) {
            if (index >= table_.size()) index = 0;
            const iovec frame = table_.frame(index);
            const std::uint32_t at = place(filled);
            if (status(at) != TP_STATUS_AVAILABLE || !kernel_.takes(frame.iov_len)) break;
            if (holds_[at] != index) {  // a flow whose frames fit the ring is copied once
                std::memcpy(slot(at) + kSlotDataOffset, frame.iov_base, frame.iov_len);
                header(at)->tp_len = static_cast<std::uint32_t>(frame.iov_len);
                holds_[at] = index;
            }
            if (stamper_ != nullptr) stamper_->write(slot(at) + kSlotDataOffset, index, filled);
            set_status(at, TP_STATUS_SEND_REQUEST);
        }
        return filled;
    }

    bool is_taken(std::uint32_t at) const {
        const std::uint32_t now = status(at);
        return now != TP_STATUS_SEND_REQUEST && now != TP_STATUS_WRONG_FORMAT;
    }

    // Slots that the kernel took, sent already or on their way; the others are ours again.
    std::uint32_t taken_of(std::uint32_t filled) const {
        if (is_taken(place(filled - 1))) return filled;
        std::uint32_t taken = 0;
        while (is_taken(place(taken))) ++taken;
        for (std::uint32_t rest = taken; rest < filled; ++rest) set_status(place(rest), TP_STATUS_AVAILABLE);
        return taken;
    }

    std::uint8_t* const ring_;
    const std::uint32_t slots_;
    const std::uint32_t slot_bytes_;
    const FrameTable& table_;
    Kernel& kernel_;
    const Stamper* const stamper_;
    std::vector<std::size_t> holds_;  // table index whose bytes a slot holds
    std::uint32_t head_ = 0;          // the slot that the kernel looks at next
};

}  // namespace labkit
