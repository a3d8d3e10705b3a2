// BPF instructions by name (linux/bpf.h, kernel: Documentation/bpf/standardization/instruction-set.rst).
#pragma once

#include <linux/bpf.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace labkit::bpf {

enum class Reg : std::uint8_t { r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10 };

enum class Size : std::uint8_t { k1 = BPF_B, k2 = BPF_H, k4 = BPF_W, k8 = BPF_DW };

inline bpf_insn instruction(int code, Reg dst, Reg src, int offset, std::int32_t immediate) {
    bpf_insn made{};
    made.code = static_cast<std::uint8_t>(code);
    made.dst_reg = static_cast<std::uint8_t>(dst) & 0xf;
    made.src_reg = static_cast<std::uint8_t>(src) & 0xf;
    made.off = static_cast<std::int16_t>(offset);
    made.imm = immediate;
    return made;
}

// 64-bit arithmetic; `operation` is BPF_MOV, BPF_ADD, BPF_DIV, ...
inline bpf_insn alu(int operation, Reg dst, Reg src) {
    return instruction(BPF_ALU64 | operation | BPF_X, dst, src, 0, 0);
}
inline bpf_insn alu(int operation, Reg dst, std::int32_t value) {
    return instruction(BPF_ALU64 | operation | BPF_K, dst, Reg::r0, 0, value);
}
inline bpf_insn move(Reg dst, Reg src) { return alu(BPF_MOV, dst, src); }
inline bpf_insn move(Reg dst, std::int32_t value) { return alu(BPF_MOV, dst, value); }
inline bpf_insn add(Reg dst, Reg src) { return alu(BPF_ADD, dst, src); }
inline bpf_insn add(Reg dst, std::int32_t value) { return alu(BPF_ADD, dst, value); }

// The lowest `bits` of dst in network order, the rest 0.
inline bpf_insn to_network(Reg dst, std::int32_t bits) {
    return instruction(BPF_ALU | BPF_END | BPF_TO_BE, dst, Reg::r0, 0, bits);
}

// dst = *(src + offset)
inline bpf_insn load(Size size, Reg dst, Reg src, int offset) {
    return instruction(BPF_LDX | BPF_MEM | static_cast<int>(size), dst, src, offset, 0);
}
// *(dst + offset) = src
inline bpf_insn store(Size size, Reg dst, int offset, Reg src) {
    return instruction(BPF_STX | BPF_MEM | static_cast<int>(size), dst, src, offset, 0);
}
inline bpf_insn store(Size size, Reg dst, int offset, std::int32_t value) {
    return instruction(BPF_ST | BPF_MEM | static_cast<int>(size), dst, Reg::r0, offset, value);
}

// A helper of enum bpf_func_id: arguments in r1 to r5, which it destroys; the answer is in r0.
inline bpf_insn call(std::int32_t helper) {
    return instruction(BPF_JMP | BPF_CALL, Reg::r0, Reg::r0, 0, helper);
}
inline bpf_insn leave() { return instruction(BPF_JMP | BPF_EXIT, Reg::r0, Reg::r0, 0, 0); }

// A program while it is written; jumps go forward and are landed later.
class Code {
  public:
    void add(bpf_insn one) { made_.push_back(one); }
    void add(std::initializer_list<bpf_insn> more) {
        for (const bpf_insn& one : more) made_.push_back(one);
    }

    // dst = the map itself, for helpers that take one.
    void map(Reg dst, int map_fd) { wide(dst, BPF_PSEUDO_MAP_FD, map_fd, 0); }
    // dst = address of byte `offset` of the only value of an array map: no helper call, no test for null.
    void map_value(Reg dst, int map_fd, std::int32_t offset) {
        wide(dst, BPF_PSEUDO_MAP_VALUE, map_fd, offset);
    }

    // Jumps when `condition` (BPF_JGT, BPF_JLT, ..., unsigned) holds of dst and src or a number.
    std::size_t jump_if(int condition, Reg dst, Reg src) {
        add(instruction(BPF_JMP | condition | BPF_X, dst, src, 0, 0));
        return made_.size() - 1;
    }
    std::size_t jump_if(int condition, Reg dst, std::int32_t value) {
        add(instruction(BPF_JMP | condition | BPF_K, dst, Reg::r0, 0, value));
        return made_.size() - 1;
    }
    std::size_t jump() {
        add(instruction(BPF_JMP | BPF_JA, Reg::r0, Reg::r0, 0, 0));
        return made_.size() - 1;
    }
    // The jump at `place` goes to the next instruction that is added.
    void land(std::size_t place) { made_[place].off = static_cast<std::int16_t>(made_.size() - place - 1); }

    const std::vector<bpf_insn>& instructions() const { return made_; }

  private:
    void wide(Reg dst, int pseudo, std::int32_t low, std::int32_t high) {
        add(instruction(BPF_LD | BPF_IMM | BPF_DW, dst, static_cast<Reg>(pseudo), 0, low));
        add(instruction(0, Reg::r0, Reg::r0, 0, high));
    }

    std::vector<bpf_insn> made_;
};

}  // namespace labkit::bpf
