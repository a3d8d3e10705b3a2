// Runs an XDP program as the kernel would, on memory that the sanitizers watch; for what live_program() uses.
#pragma once

#include <endian.h>
#include <linux/bpf.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>
#include <vector>

class BpfMachine {
  public:
    std::map<int, std::vector<std::uint8_t>> maps;  // the only value of each, by file descriptor
    std::function<std::uint64_t()> clock = [] { return std::uint64_t{0}; };
    std::uint64_t redirected_to = 0;

    // What the program answers for `packet`.
    std::uint64_t run(const std::vector<bpf_insn>& program, std::vector<std::uint8_t>& packet) {
        packet_ = &packet;
        registers_ = {};
        registers_[1] = kContext;
        for (std::size_t at = 0; at < program.size();) {
            const bpf_insn& one = program[at];
            if (one.code == (BPF_JMP | BPF_EXIT)) return registers_[0];
            at += step(program, at);
        }
        throw std::runtime_error("the program runs over its end");
    }

  private:
    static constexpr std::uint64_t kContext = 4096;  // no address that anything else has

    // Returns by how many instructions to go on.
    std::size_t step(const std::vector<bpf_insn>& program, std::size_t at) {
        const bpf_insn& one = program[at];
        switch (BPF_CLASS(one.code)) {
            case BPF_LD:
                registers_[one.dst_reg] = map_address(one, program.at(at + 1));
                return 2;
            case BPF_LDX:
                registers_[one.dst_reg] = load(one);
                return 1;
            case BPF_ST:
                store(one, static_cast<std::uint64_t>(std::int64_t{one.imm}));
                return 1;
            case BPF_STX:
                store(one, registers_[one.src_reg]);
                return 1;
            case BPF_JMP:
                return jump(one);
            case BPF_ALU:
                swap(one);
                return 1;
            default:
                compute(one);
                return 1;
        }
    }

    std::uint64_t map_address(const bpf_insn& one, const bpf_insn& next) {
        if (one.src_reg != BPF_PSEUDO_MAP_VALUE) throw std::runtime_error("no map value");
        return reinterpret_cast<std::uintptr_t>(maps.at(one.imm).data()) +
               static_cast<std::uint64_t>(std::int64_t{next.imm});
    }

    static std::size_t size(std::uint8_t code) {
        switch (BPF_SIZE(code)) {
            case BPF_B:
                return 1;
            case BPF_H:
                return 2;
            case BPF_W:
                return 4;
            default:
                return 8;
        }
    }

    std::uint64_t load(const bpf_insn& one) {
        const std::uint64_t base = registers_[one.src_reg];
        if (base == kContext) {
            const std::uint64_t start = reinterpret_cast<std::uintptr_t>(packet_->data());
            return one.off == 0 ? start : start + packet_->size();
        }
        std::uint64_t value = 0;
        std::memcpy(&value, pointer(base, one.off), size(one.code));
        return value;
    }

    void store(const bpf_insn& one, std::uint64_t value) {
        std::memcpy(pointer(registers_[one.dst_reg], one.off), &value, size(one.code));
    }

    static std::uint8_t* pointer(std::uint64_t base, std::int16_t offset) {
        return reinterpret_cast<std::uint8_t*>(base + static_cast<std::uint64_t>(std::int64_t{offset}));
    }

    std::uint64_t operand(const bpf_insn& one) const {
        return BPF_SRC(one.code) == BPF_X ? registers_[one.src_reg]
                                          : static_cast<std::uint64_t>(std::int64_t{one.imm});
    }

    std::size_t jump(const bpf_insn& one) {
        const std::uint64_t left = registers_[one.dst_reg], right = operand(one);
        bool taken = false;
        switch (BPF_OP(one.code)) {
            case BPF_CALL:
                call(one.imm);
                return 1;
            case BPF_JA:
                taken = true;
                break;
            case BPF_JLT:
                taken = left < right;
                break;
            case BPF_JGT:
                taken = left > right;
                break;
            case BPF_JNE:
                taken = left != right;
                break;
            default:
                throw std::runtime_error("unknown jump");
        }
        return taken ? static_cast<std::size_t>(1 + one.off) : 1;
    }

    // Destroys the arguments, as the kernel may.
    void call(std::int32_t helper) {
        if (helper == BPF_FUNC_redirect) {
            redirected_to = registers_[1];
            registers_[0] = XDP_REDIRECT;
        } else if (helper == BPF_FUNC_ktime_get_ns) {
            registers_[0] = clock();
        } else {
            throw std::runtime_error("unknown helper");
        }
        for (std::size_t i = 1; i <= 5; ++i) registers_[i] = 0xdead;
    }

    void swap(const bpf_insn& one) {
        std::uint64_t& value = registers_[one.dst_reg];
        if (one.code != (BPF_ALU | BPF_END | BPF_TO_BE)) throw std::runtime_error("32-bit arithmetic");
        value = one.imm == 16 ? htobe16(static_cast<std::uint16_t>(value))
                              : htobe32(static_cast<std::uint32_t>(value));
    }

    void compute(const bpf_insn& one) {
        std::uint64_t& value = registers_[one.dst_reg];
        const std::uint64_t by = operand(one);
        switch (BPF_OP(one.code)) {
            case BPF_MOV:
                value = by;
                break;
            case BPF_ADD:
                value += by;
                break;
            case BPF_MUL:
                value *= by;
                break;
            case BPF_DIV:
                value /= by;
                break;
            case BPF_MOD:
                value %= by;
                break;
            case BPF_AND:
                value &= by;
                break;
            case BPF_XOR:
                value ^= by;
                break;
            case BPF_LSH:
                value <<= by;
                break;
            case BPF_RSH:
                value >>= by;
                break;
            default:
                throw std::runtime_error("unknown arithmetic");
        }
    }

    std::array<std::uint64_t, 11> registers_{};
    std::vector<std::uint8_t>* packet_ = nullptr;
};
