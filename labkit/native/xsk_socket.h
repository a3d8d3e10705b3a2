// A socket of family AF_XDP that only sends: its memory (UMEM), its rings, its place on a queue.
#pragma once

#include <linux/if_xdp.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "stop_flag.h"
#include "tx.h"

namespace labkit {

// The rings that the kernel shares. Positions count up for ever; a place is a position modulo `frames`.
struct XskRings {
    std::uint32_t frames = 0;
    std::uint32_t* tx_producer = nullptr;
    const std::uint32_t* tx_consumer = nullptr;
    const std::uint32_t* tx_flags = nullptr;
    xdp_desc* tx = nullptr;
    const std::uint32_t* done_producer = nullptr;
    std::uint32_t* done_consumer = nullptr;
    const std::uint64_t* done = nullptr;
};

// A mapping that ends with its owner.
class Mapping {
  public:
    // Anonymous memory for fd -1. Throws std::system_error.
    Mapping(std::size_t bytes, int fd, std::int64_t offset);
    ~Mapping();
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

    std::uint8_t* at(std::uint64_t offset) const { return memory_ + offset; }

  private:
    const std::size_t bytes_;
    std::uint8_t* memory_;
};

class XskSocket {
  public:
    // Bound to a queue, zero copy where the driver has it. A queue and the memory of a socket that was closed
    // come free with a delay: while the kernel says so, this tries again, for half a second or until `stop`;
    // the latter leaves it stopped(). Throws std::system_error.
    XskSocket(const TxConfig& config, const StopFlag& stop);
    // Gives the queue back apart from the run. The kernel holds the memory's pages until it is done with them
    // (xdp_umem_pin_pages), so they may leave this process before.
    ~XskSocket();
    XskSocket(const XskSocket&) = delete;
    XskSocket& operator=(const XskSocket&) = delete;

    bool stopped() const { return stopped_; }
    int fd() const { return fd_; }
    bool zero_copy() const { return zero_copy_; }
    const XskRings& rings() const { return rings_; }
    std::uint8_t* memory() const { return memory_.at(0); }

  private:
    int open(const TxConfig& config);
    void map_rings(std::uint32_t frames);
    void unmap_rings();
    void close_all();

    Mapping memory_;
    int fd_ = -1;
    std::optional<Mapping> tx_;
    std::optional<Mapping> done_;
    XskRings rings_;
    bool zero_copy_ = false;
    bool stopped_ = false;
};

}  // namespace labkit
