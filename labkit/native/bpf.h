// Maps, XDP programs and their attachment by plain bpf(2); everything ends with its object.
#pragma once

#include <linux/bpf.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace labkit::bpf {

// A file descriptor of its own.
class Handle {
  public:
    explicit Handle(int fd) : fd_(fd) {}
    ~Handle();
    Handle(Handle&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    Handle& operator=(Handle&&) = delete;

    int fd() const { return fd_; }

  private:
    int fd_;
};

// CPUs that this machine may ever have: a per-CPU map keeps a value for each.
std::uint32_t possible_cpus();

class Map {
  public:
    // Throw std::system_error: EPERM without CAP_BPF in the initial user namespace.
    static Map array(std::uint32_t value_bytes, std::uint32_t entries);
    static Map per_cpu_array(std::uint32_t value_bytes, std::uint32_t entries);

    int fd() const { return handle_.fd(); }
    // `value` has value_bytes; in a per-CPU map it becomes the value of every CPU.
    void update(std::uint32_t key, const void* value) const;
    // The bytes of one entry; of a per-CPU map each CPU's in turn, padded to `stride` bytes.
    std::vector<std::uint8_t> lookup(std::uint32_t key) const;
    // Entry `key` as 64-bit counters, those of a per-CPU map added up.
    std::vector<std::uint64_t> counters(std::uint32_t key) const;
    std::size_t stride() const { return stride_; }

  private:
    Map(std::uint32_t type, std::uint32_t value_bytes, std::uint32_t entries, std::uint32_t copies);

    Handle handle_;
    std::uint32_t value_bytes_;
    std::size_t stride_;    // bytes of one copy as the kernel hands them over
    std::uint32_t copies_;  // one, or one a CPU
};

// A loaded XDP program.
class Program {
  public:
    // `name`: at most 15 letters, digits, dots, underscores. Throws std::system_error: EPERM without CAP_BPF
    // and CAP_NET_ADMIN in the initial user namespace; what the verifier says against the program is in
    // what().
    Program(const std::vector<bpf_insn>& instructions, const char* name);

    int fd() const { return handle_.fd(); }

    // Sends `frame` as `repeat` live frames (at least 1), of which `batch` (1 to 256, 64 by default) are
    // prepared together. Returns 0 or errno: EINVAL where the kernel has no live frames (before 5.18) or the
    // frame is too short or too long for a page, EINTR after any number of frames.
    int send_live(const void* frame, std::uint32_t frame_bytes, std::uint32_t repeat,
                  std::uint32_t batch) const;

  private:
    Handle handle_;
};

// A program on an interface of the calling thread's network namespace, for as long as this lives.
class XdpLink {
  public:
    // `flags`: XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE or 0 for the kernel's choice. Throws std::system_error:
    // EBUSY where another program is.
    XdpLink(const Program& program, int ifindex, std::uint32_t flags);

  private:
    Handle handle_;
};

}  // namespace labkit::bpf
