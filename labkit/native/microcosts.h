// What single operations of this machine cost: blocks of one operation, timed as a whole.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace labkit {

// Operations in one turn of a block's loop: a turn costs as much as one of the operation "loop".
constexpr std::uint64_t kOperationsPerTurn = 8;

struct Microcost {
    const char* name;
    const char* how;     // what one operation is
    const char* source;  // what the code is made of on this machine
};

struct MicrocostBlock {
    std::int64_t elapsed_ns;
    std::uint64_t done;  // operations that left their mark: those asked for, unless time ran out
    std::int64_t involuntary_switches;
};

// The operations that microcost_block takes, in the order of a report.
std::vector<Microcost> microcosts();

// What shared_line_block does.
Microcost shared_line();

// `count` operations on one CPU, the calling thread's for that long. Throws std::invalid_argument for a name
// that is none, a count that is no multiple of kOperationsPerTurn, or a CPU that is not allowed.
MicrocostBlock microcost_block(const std::string& name, std::uint64_t count, int cpu);

// One cache line goes to and fro between two CPUs: `count` transfers, an even number. Ends early, with fewer
// done, when the other CPU has not answered by `within_ns`.
MicrocostBlock shared_line_block(std::uint64_t count, int cpu, int other_cpu, std::int64_t within_ns);

}  // namespace labkit
