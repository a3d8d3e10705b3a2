#include "bpf.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <system_error>

namespace labkit::bpf {
namespace {

constexpr std::size_t kLogBytes = 1 << 16;
constexpr std::size_t kLogShown = 600;  // the end of the log names the instruction and what is wrong

int bpf(bpf_cmd command, bpf_attr& attributes) {
    return static_cast<int>(syscall(SYS_bpf, command, &attributes, sizeof attributes));
}

std::uint64_t address(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

[[noreturn]] void fail(const std::string& what) {
    throw std::system_error(errno, std::generic_category(), what);
}

int create_map(std::uint32_t type, std::uint32_t value_bytes, std::uint32_t entries) {
    bpf_attr attributes{};
    attributes.map_type = type;
    attributes.key_size = sizeof(std::uint32_t);
    attributes.value_size = value_bytes;
    attributes.max_entries = entries;
    const int fd = bpf(BPF_MAP_CREATE, attributes);
    if (fd < 0)
        fail("BPF map of " + std::to_string(entries) + " x " + std::to_string(value_bytes) + " bytes");
    return fd;
}

int load(const std::vector<bpf_insn>& instructions, const char* name, std::vector<char>& log) {
    bpf_attr attributes{};
    attributes.prog_type = BPF_PROG_TYPE_XDP;
    attributes.insns = address(instructions.data());
    attributes.insn_cnt = static_cast<std::uint32_t>(instructions.size());
    // helpers that print a trace are for GPL programs alone; none of those is used
    attributes.license = address("Proprietary");
    std::strncpy(attributes.prog_name, name, sizeof attributes.prog_name - 1);
    if (!log.empty()) {
        attributes.log_level = 1;
        attributes.log_buf = address(log.data());
        attributes.log_size = static_cast<std::uint32_t>(log.size());
    }
    return bpf(BPF_PROG_LOAD, attributes);
}

// The log slows a load down, so it is asked for when a program was refused.
int load_or_say_why(const std::vector<bpf_insn>& instructions, const char* name) {
    std::vector<char> log;
    int fd = load(instructions, name, log);
    if (fd >= 0) return fd;
    std::string said = "XDP program " + std::string(name);
    const int error = errno;
    if (error != EPERM) {
        log.assign(kLogBytes, '\0');
        fd = load(instructions, name, log);
        if (fd >= 0) return fd;
        const std::string text(log.data(), strnlen(log.data(), log.size()));
        said += ": " + text.substr(text.size() - std::min(text.size(), kLogShown));
    }
    errno = error;
    fail(said);
}

int create_link(int program_fd, int ifindex, std::uint32_t flags) {
    bpf_attr attributes{};
    attributes.link_create.prog_fd = static_cast<std::uint32_t>(program_fd);
    attributes.link_create.target_ifindex = static_cast<std::uint32_t>(ifindex);
    attributes.link_create.attach_type = BPF_XDP;
    attributes.link_create.flags = flags;
    const int fd = bpf(BPF_LINK_CREATE, attributes);
    if (fd < 0) fail("XDP program on interface " + std::to_string(ifindex));
    return fd;
}

}  // namespace

Handle::~Handle() {
    if (fd_ >= 0) close(fd_);
}

std::uint32_t possible_cpus() {
    // "0" or "0-3" or "0-1,4-7"; the last number is the highest (kernel: cpulist format)
    std::ifstream file("/sys/devices/system/cpu/possible");
    std::string list;
    file >> list;
    const std::size_t digits = list.find_last_not_of("0123456789");
    const std::string last = list.substr(digits == std::string::npos ? 0 : digits + 1);
    if (last.empty() || last.size() > 6) {
        throw std::system_error(EIO, std::generic_category(), "/sys/devices/system/cpu/possible");
    }
    return static_cast<std::uint32_t>(std::stoul(last)) + 1;
}

Map::Map(std::uint32_t type, std::uint32_t value_bytes, std::uint32_t entries, std::uint32_t copies)
    : handle_(create_map(type, value_bytes, entries)),
      value_bytes_(value_bytes),
      stride_(type == BPF_MAP_TYPE_PERCPU_ARRAY ? (std::size_t{value_bytes} + 7) / 8 * 8 : value_bytes),
      copies_(copies) {}

Map Map::array(std::uint32_t value_bytes, std::uint32_t entries) {
    return Map(BPF_MAP_TYPE_ARRAY, value_bytes, entries, 1);
}

Map Map::per_cpu_array(std::uint32_t value_bytes, std::uint32_t entries) {
    return Map(BPF_MAP_TYPE_PERCPU_ARRAY, value_bytes, entries, possible_cpus());
}

void Map::update(std::uint32_t key, const void* value) const {
    std::vector<std::uint8_t> copies(copies_ * stride_);
    for (std::uint32_t i = 0; i < copies_; ++i) std::memcpy(&copies[i * stride_], value, value_bytes_);
    bpf_attr attributes{};
    attributes.map_fd = static_cast<std::uint32_t>(fd());
    attributes.key = address(&key);
    attributes.value = address(copies.data());
    if (bpf(BPF_MAP_UPDATE_ELEM, attributes) != 0) fail("BPF map entry " + std::to_string(key));
}

std::vector<std::uint8_t> Map::lookup(std::uint32_t key) const {
    std::vector<std::uint8_t> found(copies_ * stride_);
    bpf_attr attributes{};
    attributes.map_fd = static_cast<std::uint32_t>(fd());
    attributes.key = address(&key);
    attributes.value = address(found.data());
    if (bpf(BPF_MAP_LOOKUP_ELEM, attributes) != 0) fail("BPF map entry " + std::to_string(key));
    return found;
}

std::vector<std::uint64_t> Map::counters(std::uint32_t key) const {
    const std::vector<std::uint8_t> found = lookup(key);
    std::vector<std::uint64_t> totals(value_bytes_ / sizeof(std::uint64_t));
    for (std::uint32_t copy = 0; copy < copies_; ++copy) {
        for (std::size_t i = 0; i < totals.size(); ++i) {
            std::uint64_t one = 0;
            std::memcpy(&one, &found[copy * stride_ + i * sizeof one], sizeof one);
            totals[i] += one;
        }
    }
    return totals;
}

Program::Program(const std::vector<bpf_insn>& instructions, const char* name)
    : handle_(load_or_say_why(instructions, name)) {}

int Program::send_live(const void* frame, std::uint32_t frame_bytes, std::uint32_t repeat,
                       std::uint32_t batch) const {
    bpf_attr attributes{};
    attributes.test.prog_fd = static_cast<std::uint32_t>(fd());
    attributes.test.data_in = address(frame);
    attributes.test.data_size_in = frame_bytes;
    attributes.test.repeat = repeat;
    attributes.test.flags = BPF_F_TEST_XDP_LIVE_FRAMES;
    attributes.test.batch_size = batch;
    return bpf(BPF_PROG_TEST_RUN, attributes) == 0 ? 0 : errno;
}

XdpLink::XdpLink(const Program& program, int ifindex, std::uint32_t flags)
    : handle_(create_link(program.fd(), ifindex, flags)) {}

}  // namespace labkit::bpf
