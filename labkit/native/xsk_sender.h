// Frames through the rings of an AF_XDP socket, counted by the kernel's place in them.
// How the kernel is woken (Kernel) is a template argument: a system call in the engine, a fake in the tests.
//
// What the kernel has been shown stays in the ring until it takes it: it keeps a copy of the producer's
// position (xskq_cons_get_entries), so a descriptor cannot be taken back. Frames that it would skip in
// silence (xskq_cons_read_desc) or that a device would swallow are therefore never shown to it. A call that
// fails with EBUSY has taken one frame more and dropped it (__xsk_generic_xmit: NET_XMIT_DROP), and the next
// call goes on behind it; EAGAIN and ENOBUFS leave the frame where it is. Before 6.17 a call that failed did
// not show its place, the next one that emptied the ring did: so drops are counted, not placed.
#pragma once

#include <linux/if_xdp.h>
#include <net/ethernet.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

#include "clock.h"
#include "frame_table.h"
#include "tx_loop.h"
#include "xsk_socket.h"

namespace labkit {

// Looks at a ring without room before the loop looks at its stop flag: some 50 us.
constexpr int kRoomLooks = 1024;

// Calls in a row without memory for an skb before the run ends with ENOBUFS: some 10 ms.
constexpr std::uint32_t kMostTries = 10'000;

template <class Kernel>
class XskSender {
  public:
    // `kernel.kick()` gives 0 or an errno; `kernel.takes(bytes, more)` is LengthLimit's;
    // `kernel.zero_copy()` says whether the device reads the ring itself.
    // A frame is stamped when it is shown, in a slot that nobody reads: one that has not come back may still
    // be read.
    XskSender(const XskRings& rings, std::uint8_t* memory, const XskGeometry& geometry,
              const FrameTable& table, Kernel& kernel, const Stamper* stamper = nullptr)
        : rings_(rings),
          memory_(memory),
          slot_bytes_(geometry.slot_bytes),
          table_(table),
          kernel_(kernel),
          stamper_(stamper),
          copied_once_(stamper == nullptr && table.size() <= geometry.slots),
          produced_(*rings.tx_producer),
          consumed_(produced_),
          completed_(*rings.done_consumer) {
        is_tagged_.reserve(table.size());
        for (std::size_t i = 0; i < table.size(); ++i) {
            is_tagged_.push_back(has_tag(table.frame(i)) ? 1 : 0);
            if (copied_once_) copy(i, i * slot_bytes_);
        }
        if (copied_once_) return;
        free_.reserve(geometry.slots);
        for (std::uint64_t slot = geometry.slots; slot > 0; --slot) free_.push_back((slot - 1) * slot_bytes_);
    }

    Taken call(std::size_t first, std::uint32_t frames) {
        if (taken_ > 0 && taken_ >= dropped_) return told(0, 0);
        reclaim();
        if (pending() == 0) {
            if (const int error = wrong_with(first)) return {1, error, 0};
            if (!has_room()) return {0, EAGAIN, 0};
        }
        const std::uint32_t known = taken_ + pending();
        if (frames > known) show(first + known, frames - known, known);
        std::uint32_t calls = 0;
        int error = EAGAIN;
        // a call takes so many frames and says EAGAIN; another one takes the next
        for (bool more = true; more && error == EAGAIN && pending() > 0;) {
            error = wake(calls);
            more = look();
        }
        const bool moved = taken_ > 0;
        if (error == EBUSY) dropped_ += 1;
        if (error == 0 && calls > 0 && !moved && pending() > 0 && !kernel_.zero_copy()) {
            error = ENXIO;  // the queue is gone: the kernel then looks at no frame and says nothing
        }
        tries_ = !moved && is_no_memory(error) ? tries_ + 1 : 0;
        if (is_no_memory(error) && tries_ < kMostTries) error = EAGAIN;
        return told(error, calls);
    }

    // Waits until nothing is on its way any more, `until_ns` at the latest; what was taken or dropped and not
    // told yet goes into the report.
    void finish(TxReport& report, std::int64_t until_ns) {
        std::uint32_t calls = 0;
        do {
            if (kernel_.zero_copy() && pending() > 0) wake(calls);
            look();
            reclaim();
        } while ((completed_ != consumed_ || (kernel_.zero_copy() && pending() > 0)) &&
                 monotonic_ns() < until_ns);
        report.calls += calls;
        const std::uint32_t dropped = dropped_ < taken_ ? dropped_ : taken_;
        report.sent += taken_ - dropped;
        if (dropped == 0) return;
        report.refused += dropped;
        report.refused_by_errno[EBUSY] += dropped;
    }

  private:
    static bool has_tag(iovec frame) {
        const auto* bytes = static_cast<const std::uint8_t*>(frame.iov_base);
        return frame.iov_len >= ETH_HLEN && bytes[12] == ETHERTYPE_VLAN >> 8 &&
               bytes[13] == (ETHERTYPE_VLAN & 0xff);
    }
    static bool is_no_memory(int error) { return error == ENOBUFS || error == ENOMEM; }

    std::uint32_t place(std::uint32_t position) const { return position & (rings_.frames - 1); }
    std::uint32_t pending() const { return produced_ - consumed_; }

    void copy(std::size_t index, std::uint64_t address) {
        const iovec frame = table_.frame(index);
        std::memcpy(memory_ + address, frame.iov_base, frame.iov_len);
    }

    // As packet sockets answer; this family looks at neither (measured: a device may take or swallow both).
    int wrong_with(std::size_t index) {
        const std::size_t bytes = table_.frame(index).iov_len;
        if (bytes < ETH_HLEN) return EINVAL;
        return kernel_.takes(bytes, is_tagged_[index] != 0 ? kVlanTagBytes : 0) ? 0 : EMSGSIZE;
    }

    std::uint32_t room() const {
        const std::uint32_t room = rings_.frames - (produced_ - completed_);
        return copied_once_ || room < free_.size() ? room : static_cast<std::uint32_t>(free_.size());
    }

    // Spins: a sender that sleeps would leave a fast device idle until it wakes.
    bool has_room() {
        for (int turn = 0; turn < kRoomLooks && room() == 0; ++turn) {
            relax();
            reclaim();
        }
        return room() > 0;
    }

    // Shows `frames` from `index` on, which lie `ahead` behind the first that the loop has not heard of.
    void show(std::size_t index, std::uint32_t frames, std::uint32_t ahead) {
        while (index >= table_.size()) index -= table_.size();
        for (std::uint32_t left = room(); frames > 0 && left > 0; --frames, --left, ++ahead) {
            if (wrong_with(index) != 0) break;
            std::uint64_t address = index * slot_bytes_;
            if (!copied_once_) {
                address = free_.back();
                free_.pop_back();
                copy(index, address);
                if (stamper_ != nullptr) stamper_->write(memory_ + address, index, ahead);
            }
            rings_.tx[place(produced_++)] = {address, static_cast<std::uint32_t>(table_.frame(index).iov_len),
                                             0};
            if (++index == table_.size()) index = 0;
        }
        __atomic_store_n(rings_.tx_producer, produced_, __ATOMIC_RELEASE);
    }

    int wake(std::uint32_t& calls) {
        if ((__atomic_load_n(rings_.tx_flags, __ATOMIC_RELAXED) & XDP_RING_NEED_WAKEUP) == 0) return 0;
        calls += 1;
        return kernel_.kick();
    }

    // Whether the kernel has taken more. What has come back was taken, whatever an older kernel shows.
    bool look() {
        std::uint32_t now = __atomic_load_n(rings_.tx_consumer, __ATOMIC_ACQUIRE);
        const std::uint32_t back = __atomic_load_n(rings_.done_producer, __ATOMIC_ACQUIRE);
        if (static_cast<std::int32_t>(back - now) > 0) now = back;
        const std::uint32_t more = now - consumed_;
        consumed_ = now;
        taken_ += more;
        return more > 0;
    }

    // Takes back what the device is done with.
    void reclaim() {
        const std::uint32_t now = __atomic_load_n(rings_.done_producer, __ATOMIC_ACQUIRE);
        if (now == completed_) return;
        if (!copied_once_) {
            for (std::uint32_t at = completed_; at != now; ++at) free_.push_back(rings_.done[place(at)]);
        }
        completed_ = now;
        __atomic_store_n(rings_.done_consumer, now, __ATOMIC_RELEASE);
    }

    // What the loop hears: frames sent, then those dropped, then that nothing moved.
    Taken told(int error, std::uint32_t calls) {
        if (taken_ > dropped_) {
            const std::uint32_t sent = taken_ - dropped_;
            taken_ = dropped_;
            return {sent, 0, calls};
        }
        if (taken_ > 0 && taken_ == dropped_) {
            const std::uint32_t refused = dropped_;
            taken_ = dropped_ = 0;
            return {refused, EBUSY, calls};
        }
        return {0, error == 0 || error == EBUSY ? EAGAIN : error, calls};
    }

    const XskRings rings_;
    std::uint8_t* const memory_;
    const std::uint64_t slot_bytes_;
    const FrameTable& table_;
    Kernel& kernel_;
    const Stamper* const stamper_;
    const bool copied_once_;  // each frame of the table has a slot of its own, and leaves as it is
    std::vector<std::uint8_t> is_tagged_;
    std::vector<std::uint64_t> free_;  // addresses of slots that hold nothing
    std::uint32_t produced_;           // positions in the TX ring: shown to the kernel,
    std::uint32_t consumed_;           // taken by it
    std::uint32_t completed_;          // and back from the device
    std::uint32_t taken_ = 0;          // frames taken that the loop has not heard of,
    std::uint32_t dropped_ = 0;        // and how many of them (or, on old kernels, of the next) were dropped
    std::uint32_t tries_ = 0;
};

}  // namespace labkit
