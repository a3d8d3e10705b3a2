// The instructions that microcosts.cpp times: written out for x86-64, std::atomic elsewhere.
#pragma once

#include <atomic>
#include <cstdint>

namespace labkit {

// a cache line of its own, so that nothing else moves it
struct alignas(64) Cell {
    std::atomic<std::uint64_t> value{0};
};

// Keeps a value in a register and its making in the program; costs no instruction.
template <class T>
inline void keep(T& value) {
    asm volatile("" : "+r"(value));
}

// Each leaves the cell one higher.
#if defined(__x86_64__) && !defined(LABKIT_NO_ASSEMBLY)

constexpr const char* kAtomicSource = "x86-64 instructions";
constexpr const char* kStoreFenceHow =
    "a store to normal memory and sfence, no MMIO: a doorbell also waits for the bus";

inline void locked_add(Cell& cell) { asm volatile("lock addq $1, %0" : "+m"(cell.value)::"cc"); }

inline void plain_add(Cell& cell) { asm volatile("addq $1, %0" : "+m"(cell.value)::"cc"); }

inline void locked_compare_exchange(Cell& cell, std::uint64_t& seen) {
    asm volatile("lock cmpxchgq %2, %1" : "+a"(seen), "+m"(cell.value) : "r"(seen + 1) : "cc");
    ++seen;
}

inline void plain_compare_exchange(Cell& cell, std::uint64_t& seen) {
    asm volatile("cmpxchgq %2, %1" : "+a"(seen), "+m"(cell.value) : "r"(seen + 1) : "cc");
    ++seen;
}

// xchg with memory locks without the prefix (Intel SDM volume 2, XCHG)
inline void locked_exchange(Cell& cell, std::uint64_t& next) {
    asm volatile("xchgq %0, %1" : "+r"(next), "+m"(cell.value));
    next += 2;
}

inline void plain_exchange(Cell& cell, std::uint64_t& next) {
    std::uint64_t seen;
    asm volatile("movq %1, %0\n\tmovq %2, %1" : "=&r"(seen), "+m"(cell.value) : "r"(next));
    next = seen + 2;
}

inline void store_and_fence(Cell& cell, std::uint64_t value) {
    asm volatile("movq %1, %0\n\tsfence" : "=m"(cell.value) : "r"(value) : "memory");
}

#else

constexpr const char* kAtomicSource = "std::atomic";
constexpr const char* kStoreFenceHow =
    "a store to normal memory and a release fence, no MMIO: a doorbell also waits for the bus";

inline void locked_add(Cell& cell) { cell.value.fetch_add(1); }

inline void plain_add(Cell& cell) {
    cell.value.store(cell.value.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

inline void locked_compare_exchange(Cell& cell, std::uint64_t& seen) {
    cell.value.compare_exchange_strong(seen, seen + 1);
    ++seen;
}

inline void plain_compare_exchange(Cell& cell, std::uint64_t& seen) {
    if (cell.value.load(std::memory_order_relaxed) == seen) {
        cell.value.store(seen + 1, std::memory_order_relaxed);
    }
    ++seen;
}

inline void locked_exchange(Cell& cell, std::uint64_t& next) { next = cell.value.exchange(next) + 2; }

inline void plain_exchange(Cell& cell, std::uint64_t& next) {
    const std::uint64_t seen = cell.value.load(std::memory_order_relaxed);
    cell.value.store(next, std::memory_order_relaxed);
    next = seen + 2;
}

inline void store_and_fence(Cell& cell, std::uint64_t value) {
    cell.value.store(value, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
}

#endif

}  // namespace labkit
