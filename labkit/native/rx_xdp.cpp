#include "rx_xdp.h"

#include "bpf_code.h"

namespace labkit {
namespace {

using bpf::Reg;
using bpf::Size;

constexpr std::int32_t kKeyAt = -4;  // on the stack, below r10

// A map of a value a CPU: XDP programs are not preempted by one another on a CPU, so that no count is lost
// without atomic operations.
std::vector<bpf_insn> counting(const bpf::Map& counts) {
    bpf::Code code;
    code.add(bpf::store(Size::k4, Reg::r10, kKeyAt, 0));
    code.map(Reg::r1, counts.fd());
    code.add({bpf::move(Reg::r2, Reg::r10), bpf::add(Reg::r2, kKeyAt), bpf::call(BPF_FUNC_map_lookup_elem)});
    const std::size_t no_entry = code.jump_if(BPF_JEQ, Reg::r0, 0);
    code.add({bpf::load(Size::k8, Reg::r1, Reg::r0, 0), bpf::add(Reg::r1, 1),
              bpf::store(Size::k8, Reg::r0, 0, Reg::r1)});
    code.land(no_entry);
    code.add({bpf::move(Reg::r0, XDP_DROP), bpf::leave()});
    return code.instructions();
}

}  // namespace

XdpDrop::XdpDrop(int ifindex)
    : counts_(bpf::Map::per_cpu_array(sizeof(std::uint64_t), 1)), program_(counting(counts_), "labkit_drop") {
    link_.emplace(program_, ifindex, 0);
}

}  // namespace labkit
