// A kernel that walks the rings of an AF_XDP socket as __xsk_generic_xmit() does.
#pragma once

#include <functional>
#include <vector>

#include "fakes.h"
#include "xsk_sender.h"

constexpr std::uint32_t kXskSlotBytes = 128;

struct FakeXsk {
    FakeXsk(std::uint32_t ring_frames, std::uint32_t slots)
        : memory(std::size_t{slots} * kXskSlotBytes), tx(ring_frames), done(ring_frames) {}

    std::vector<std::uint8_t> memory;
    std::vector<xdp_desc> tx;
    std::vector<std::uint64_t> done;
    // positions wrap after four thousand million frames: here after 300
    static constexpr std::uint32_t kStart = 0U - 300;
    std::uint32_t tx_producer = kStart, tx_consumer = kStart, flags = XDP_RING_NEED_WAKEUP;
    std::uint32_t done_producer = kStart, done_consumer = kStart;
    std::uint32_t shown = kStart, at = kStart;  // the kernel's own copies of producer and consumer
    std::uint32_t budget = 32;
    bool shows_its_place = true;  // since 6.17, also where a call failed
    bool is_zero_copy = false;
    std::size_t limit = 1500;
    std::function<int(std::uint64_t)> says = [](std::uint64_t) { return 0; };  // errno by number of the look
    std::function<bool()> frees = [] { return true; };  // whether what is on its way is back by now
    // what lies at an address, when it is taken (and dropped, or not) and when it comes back
    std::function<void(std::uint64_t, bool)> on_take = [](std::uint64_t, bool) {};
    std::function<void(std::uint64_t)> on_return = [](std::uint64_t) {};
    std::uint64_t looked = 0;
    std::vector<std::uint64_t> on_its_way;
    std::vector<std::uint8_t> taken;
    std::vector<std::uint32_t> lengths;

    labkit::XskRings rings() {
        return {static_cast<std::uint32_t>(tx.size()),
                &tx_producer,
                &tx_consumer,
                &flags,
                tx.data(),
                &done_producer,
                &done_consumer,
                done.data()};
    }

    bool takes(std::size_t bytes, std::size_t more) {
        if (frees()) give_back();  // a device does so in its own time
        return bytes <= limit + more;
    }
    bool zero_copy() const { return is_zero_copy; }

    int kick() {
        const int error = is_zero_copy ? 0 : walk();
        if (shows_its_place) tx_consumer = at;
        if (frees()) give_back();
        return error;
    }

    int walk() {
        for (std::uint32_t left = budget;; --left) {
            if (at == shown) {
                tx_consumer = at;
                shown = tx_producer;
            }
            if (at == shown) return 0;
            if (left == 0 || done_producer - done_consumer + on_its_way.size() == done.size()) return EAGAIN;
            const int error = says(looked++);
            if (error != 0 && error != EBUSY) return error;
            take(error == EBUSY);
            if (error == EBUSY) return EBUSY;
        }
    }

    void take(bool drops) {
        const xdp_desc frame = tx[at++ % tx.size()];
        on_its_way.push_back(frame.addr);
        on_take(frame.addr, drops);
        if (drops) return;
        taken.push_back(memory.at(frame.addr));
        lengths.push_back(frame.len);
    }

    void give_back() {
        for (const std::uint64_t address : on_its_way) {
            on_return(address);
            done[done_producer++ % done.size()] = address;
        }
        on_its_way.clear();
    }
};
