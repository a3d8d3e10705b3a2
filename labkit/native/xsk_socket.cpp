#include "xsk_socket.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "clock.h"
#include "socket.h"

namespace labkit {
namespace {

// linux/if_xdp.h of Linux 6.17; older headers lack it.
constexpr int kMaxTxSkbBudget = 9;

// The kernel wants a fill ring too (xsk_bind: EINVAL without), though nothing is received.
constexpr std::uint32_t kFillFrames = 1;

// A closed socket gives its queue back 35 to 50 ms later, and its memory after that (measured, 6.18).
constexpr std::int64_t kOpenWithinNs = 500'000'000;
constexpr std::int64_t kOpenStepNs = 2'000'000;

[[noreturn]] void fail(int error, const std::string& what) {
    throw std::system_error(error, std::generic_category(), what);
}

template <class Value>
int set(int fd, int option, const Value& value) {
    return setsockopt(fd, SOL_XDP, option, &value, sizeof value) == 0 ? 0 : errno;
}

}  // namespace

Mapping::Mapping(std::size_t bytes, int fd, std::int64_t offset) : bytes_(bytes) {
    const int flags = MAP_POPULATE | (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, offset);
    if (memory == MAP_FAILED) fail(errno, "mapping of " + std::to_string(bytes) + " bytes");
    memory_ = static_cast<std::uint8_t*>(memory);
}

Mapping::~Mapping() { munmap(memory_, bytes_); }

XskSocket::XskSocket(const TxConfig& config, const StopFlag& stop) : memory_(config.xsk.memory_bytes, -1, 0) {
    const std::int64_t give_up_ns = monotonic_ns() + kOpenWithinNs;
    try {
        for (int error = open(config); error != 0; error = open(config)) {
            close_all();
            if (error != EBUSY && error != ENOBUFS) fail(error, "AF_XDP socket");
            if (monotonic_ns() >= give_up_ns) fail(error, "AF_XDP socket, for 500 ms");
            if (stop.is_set()) {
                stopped_ = true;
                return;
            }
            sleep_until_ns(monotonic_ns() + kOpenStepNs);
        }
    } catch (...) {
        close_all();
        throw;
    }
}

XskSocket::~XskSocket() {
    unmap_rings();
    if (fd_ >= 0) close_apart(fd_);
}

// A mapped ring holds the socket, and with it the queue: rings go first, so that it is the close that waits.
void XskSocket::unmap_rings() {
    tx_.reset();
    done_.reset();
}

void XskSocket::close_all() {
    unmap_rings();
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
}

// 0 or the errno of what did not work.
int XskSocket::open(const TxConfig& config) {
    fd_ = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (fd_ < 0) return errno;
    xdp_umem_reg memory{};
    memory.addr = reinterpret_cast<std::uint64_t>(memory_.at(0));
    memory.len = config.xsk.memory_bytes;
    memory.chunk_size = config.xsk.chunk_bytes;
    const std::uint32_t frames = config.xsk.ring_frames;
    if (const int error = set(fd_, XDP_UMEM_REG, memory)) return error;
    if (const int error = set(fd_, XDP_UMEM_FILL_RING, kFillFrames)) return error;
    if (const int error = set(fd_, XDP_UMEM_COMPLETION_RING, frames)) return error;
    if (const int error = set(fd_, XDP_TX_RING, frames)) return error;
    map_rings(frames);
    raise_send_buffer(fd_);
    // without it a call takes 32 frames in copy mode; it is refused by older kernels and for smaller rings
    set(fd_, kMaxTxSkbBudget, frames);
    sockaddr_xdp address{};
    address.sxdp_family = AF_XDP;
    address.sxdp_flags = XDP_USE_NEED_WAKEUP;
    address.sxdp_ifindex = static_cast<std::uint32_t>(config.ifindex);
    address.sxdp_queue_id = config.queue;
    if (bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return errno;
    xdp_options options{};
    socklen_t bytes = sizeof options;
    zero_copy_ = getsockopt(fd_, SOL_XDP, XDP_OPTIONS, &options, &bytes) == 0 &&
                 (options.flags & XDP_OPTIONS_ZEROCOPY) != 0;
    return 0;
}

void XskSocket::map_rings(std::uint32_t frames) {
    xdp_mmap_offsets offsets{};
    socklen_t bytes = sizeof offsets;
    if (getsockopt(fd_, SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &bytes) != 0) fail(errno, "rings of AF_XDP");
    // before 5.4 the offsets had no flags, and need_wakeup did not exist (xsk_getsockopt: struct ..._v1)
    if (bytes != sizeof offsets) fail(EPROTONOSUPPORT, "rings of AF_XDP without need_wakeup");
    tx_.emplace(offsets.tx.desc + std::size_t{frames} * sizeof(xdp_desc), fd_, XDP_PGOFF_TX_RING);
    done_.emplace(offsets.cr.desc + std::size_t{frames} * sizeof(std::uint64_t), fd_,
                  static_cast<std::int64_t>(XDP_UMEM_PGOFF_COMPLETION_RING));
    rings_.frames = frames;
    rings_.tx_producer = reinterpret_cast<std::uint32_t*>(tx_->at(offsets.tx.producer));
    rings_.tx_consumer = reinterpret_cast<const std::uint32_t*>(tx_->at(offsets.tx.consumer));
    rings_.tx_flags = reinterpret_cast<const std::uint32_t*>(tx_->at(offsets.tx.flags));
    rings_.tx = reinterpret_cast<xdp_desc*>(tx_->at(offsets.tx.desc));
    rings_.done_producer = reinterpret_cast<const std::uint32_t*>(done_->at(offsets.cr.producer));
    rings_.done_consumer = reinterpret_cast<std::uint32_t*>(done_->at(offsets.cr.consumer));
    rings_.done = reinterpret_cast<const std::uint64_t*>(done_->at(offsets.cr.desc));
}

}  // namespace labkit
