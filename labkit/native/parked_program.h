// Keeps an XDP program where live frames reach it without waiting.
#pragma once

#include "bpf.h"

namespace labkit::bpf {

// The program on the loopback of a network namespace made for it, where no frame ever passes.
//
// A test run of more than one frame puts the program into the dispatcher that all XDP programs are called
// through and takes it out at the end; both wait until no CPU is in the old code (kernel: bpf_prog_change_xdp
// in bpf_prog_test_run_xdp, synchronize_rcu in kernel/bpf/dispatcher.c), 24 ms a call on two CPUs. A program
// that is attached somewhere is in the dispatcher already: then a call costs 15 us.
class ParkedProgram {
  public:
    // Throws std::system_error: EPERM without CAP_SYS_ADMIN, which a network namespace takes.
    explicit ParkedProgram(const Program& program);
    // Waits for nothing: the kernel takes the namespace down by and by.
    ~ParkedProgram() = default;

  private:
    Handle namespace_;  // a netlink socket of it
};

}  // namespace labkit::bpf
