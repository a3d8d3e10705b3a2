#include "live_program.h"

#include <endian.h>

#include <cstddef>

#include "bpf_code.h"
#include "stamp.h"

namespace labkit {
namespace {

using namespace bpf;

constexpr std::int32_t kLowHalf = 0xffff;

constexpr Reg kContext = Reg::r6;
constexpr Reg kState = Reg::r7;
constexpr Reg kRow = Reg::r8;
constexpr Reg kPacket = Reg::r9;

Size size_of(std::uint32_t bytes) {
    switch (bytes) {
        case 8:
            return Size::k8;
        case 4:
            return Size::k4;
        case 2:
            return Size::k2;
        default:
            return Size::k1;
    }
}

void count_frame(Code& code, int state_fd) {
    code.map_value(kState, state_fd, 0);
    code.add({load(Size::k8, Reg::r1, kState, offsetof(LiveState, frames)), add(Reg::r1, 1),
              store(Size::k8, kState, offsetof(LiveState, frames), Reg::r1)});
}

// Behind the last row comes the first: compared, for a division costs more than everything else here.
void find_row(Code& code, const FrameRows& rows, int rows_fd) {
    code.add(load(Size::k8, Reg::r1, kState, offsetof(LiveState, next_row)));
    const std::size_t within = code.jump_if(BPF_JLT, Reg::r1, static_cast<std::int32_t>(rows.rows().size()));
    code.add(move(Reg::r1, 0));
    code.land(within);
    code.map_value(kRow, rows_fd, 0);
    code.add({add(kRow, Reg::r1), add(Reg::r1, static_cast<std::int32_t>(rows.stride())),
              store(Size::k8, kState, offsetof(LiveState, next_row), Reg::r1)});
}

// Returns the jump of a packet that is shorter than the frame; the verifier wants one.
std::size_t find_packet(Code& code, const FrameRows& rows) {
    code.add({load(Size::k4, kPacket, kContext, offsetof(xdp_md, data)),
              load(Size::k4, Reg::r2, kContext, offsetof(xdp_md, data_end)), move(Reg::r1, kPacket),
              add(Reg::r1, static_cast<std::int32_t>(rows.frame_bytes()))});
    return code.jump_if(BPF_JGT, Reg::r1, Reg::r2);
}

void copy_row(Code& code, const FrameRows& rows) {
    for (const Span& span : rows.spans()) {
        const Size size = size_of(span.bytes);
        code.add({load(size, Reg::r1, kRow, static_cast<int>(span.row_at)),
                  store(size, kPacket, static_cast<int>(span.frame_at), Reg::r1)});
    }
}

// r3 += both halves of `number`, which has 32 bits.
void add_halves(Code& code, Reg number) {
    code.add({move(Reg::r4, number), alu(BPF_RSH, Reg::r4, 16), add(Reg::r3, Reg::r4)});
    code.add({move(Reg::r4, number), alu(BPF_AND, Reg::r4, kLowHalf), add(Reg::r3, Reg::r4)});
}

// The UDP checksum of the stamp in r0, r1, r2; a result of 0 goes out as ffff (RFC 768).
void write_checksum(Code& code, const FrameRows& rows, const LiveStamp& stamp) {
    code.add(load(Size::k4, Reg::r3, kRow, static_cast<int>(rows.column_at())));
    for (const Reg number : {Reg::r0, Reg::r1, Reg::r2}) add_halves(code, number);
    for (int carries = 0; carries < 2; ++carries)
        code.add({move(Reg::r4, Reg::r3), alu(BPF_RSH, Reg::r4, 16), alu(BPF_AND, Reg::r3, kLowHalf),
                  add(Reg::r3, Reg::r4)});
    code.add(alu(BPF_XOR, Reg::r3, kLowHalf));
    const std::size_t some = code.jump_if(BPF_JNE, Reg::r3, 0);
    code.add(move(Reg::r3, kLowHalf));
    code.land(some);
    code.add(
        {to_network(Reg::r3, 16), store(Size::k2, kPacket, static_cast<int>(stamp.payload_at) - 2, Reg::r3)});
}

// r2 = the frame's number, r0 = its CLOCK_REALTIME in nanoseconds.
void find_time(Code& code, const LiveStamp& stamp) {
    if (!stamp.due) code.add(call(BPF_FUNC_ktime_get_ns));
    // this frame is counted already
    code.add({load(Size::k8, Reg::r2, kState, offsetof(LiveState, frames)), add(Reg::r2, -1)});
    if (stamp.due) {
        code.add({move(Reg::r0, Reg::r2), load(Size::k8, Reg::r1, kState, offsetof(LiveState, frame_ns)),
                  alu(BPF_MUL, Reg::r0, Reg::r1), alu(BPF_RSH, Reg::r0, kFrameNsBits)});
    }
    code.add({load(Size::k8, Reg::r1, kState, offsetof(LiveState, date_ns)), add(Reg::r0, Reg::r1)});
}

void write_stamp(Code& code, const FrameRows& rows, const LiveStamp& stamp) {
    const int at = static_cast<int>(stamp.payload_at);
    find_time(code, stamp);
    // seconds in r1, microseconds in r0, and the 32 bits that a number has in r2
    code.add({alu(BPF_DIV, Reg::r0, 1'000), move(Reg::r1, Reg::r0), alu(BPF_DIV, Reg::r1, 1'000'000),
              alu(BPF_MOD, Reg::r0, 1'000'000)});
    code.add({alu(BPF_LSH, Reg::r2, 32), alu(BPF_RSH, Reg::r2, 32)});
    if (stamp.summed) write_checksum(code, rows, stamp);
    code.add(store(Size::k4, kPacket, at, static_cast<std::int32_t>(htobe32(kStampMagic))));
    int behind = at + 4;
    for (const Reg number : {Reg::r2, Reg::r1, Reg::r0}) {
        code.add({to_network(number, 32), store(Size::k4, kPacket, behind, number)});
        behind += 4;
    }
}

}  // namespace

std::vector<bpf_insn> live_program(const FrameRows& rows, int ifindex, int state_fd, int rows_fd,
                                   const std::optional<LiveStamp>& stamp) {
    Code code;
    code.add(move(kContext, Reg::r1));
    count_frame(code, state_fd);
    std::optional<std::size_t> too_short;
    if (rows.stride() > 0) {
        find_row(code, rows, rows_fd);
        too_short = find_packet(code, rows);
        copy_row(code, rows);
        if (stamp) write_stamp(code, rows, *stamp);
    }
    code.add({move(Reg::r1, ifindex), move(Reg::r2, 0), call(BPF_FUNC_redirect), leave()});
    if (too_short) {
        code.land(*too_short);
        code.add({move(Reg::r0, XDP_DROP), leave()});
    }
    return code.instructions();
}

}  // namespace labkit
