// Counts and drops frames where the device receives them, before the kernel makes packets of them.
#pragma once

#include <cstdint>
#include <optional>

#include "bpf.h"

namespace labkit {

class XdpDrop {
  public:
    // On an interface of the calling thread's network namespace, in the driver where it can, else in the
    // stack. Throws std::system_error: EPERM without CAP_BPF in the initial user namespace, EBUSY where
    // another program is.
    explicit XdpDrop(int ifindex);

    // Frames so far, of all CPUs.
    std::uint64_t counted() const { return counts_.counters(0)[0]; }

    // Takes the program off; the count stays.
    void detach() { link_.reset(); }

  private:
    bpf::Map counts_;
    bpf::Program program_;
    std::optional<bpf::XdpLink> link_;
};

}  // namespace labkit
