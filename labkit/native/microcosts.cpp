#include "microcosts.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>
#include <exception>
#include <stdexcept>
#include <thread>

#include "affinity.h"
#include "clock.h"
#include "microcost_operations.h"
#include "stop_flag.h"

namespace labkit {
namespace {

constexpr unsigned kLookEvery = 1024;  // turns of a waiting loop between two looks at what may end it

template <class Step>
inline void repeat(std::uint64_t count, Step step) {
    for (std::uint64_t turns = count / kOperationsPerTurn; turns != 0; --turns) {
        keep(turns);
        step(), step(), step(), step(), step(), step(), step(), step();
    }
}

std::uint64_t clock_reads(std::uint64_t count) {
    std::uint64_t done = 0;
    timespec now{};
    repeat(count, [&] { done += clock_gettime(CLOCK_MONOTONIC, &now) == 0; });
    return done;
}

std::uint64_t empty_turns(std::uint64_t count) {
    std::uint64_t done = 0;
    while (done != count) {
        ++done;
        keep(done);
    }
    return done;
}

std::uint64_t system_calls(std::uint64_t count) {
    std::uint64_t done = 0;
    repeat(count, [&] { done += syscall(SYS_getppid) >= 0; });
    return done;
}

template <void (*step)(Cell&)>
std::uint64_t on_cell(std::uint64_t count) {
    Cell cell;
    repeat(count, [&] { step(cell); });
    return cell.value.load();
}

template <void (*step)(Cell&, std::uint64_t&), std::uint64_t first>
std::uint64_t on_cell_and_register(std::uint64_t count) {
    Cell cell;
    std::uint64_t held = first;
    repeat(count, [&] { step(cell, held); });
    return cell.value.load();
}

std::uint64_t fenced_stores(std::uint64_t count) {
    Cell cell;
    std::uint64_t value = 0;
    repeat(count, [&] { store_and_fence(cell, ++value); });
    return cell.value.load();
}

__attribute__((noinline)) std::uint64_t one_more(std::uint64_t value) { return value + 1; }

std::uint64_t indirect_calls(std::uint64_t count) {
    std::uint64_t (*called)(std::uint64_t) = &one_more;
    std::uint64_t done = 0;
    repeat(count, [&] {
        keep(called);
        done = called(done);
    });
    return done;
}

struct Operation {
    Microcost about;
    std::uint64_t (*run)(std::uint64_t count);
};

constexpr Operation kOperations[] = {
    {{"loop", "one turn of an empty loop", "C++"}, &empty_turns},
    {{"clock", "clock_gettime(CLOCK_MONOTONIC): no system call where the vDSO reads the clock source",
      "libc"},
     &clock_reads},
    {{"syscall", "syscall(SYS_getppid): into the kernel and back", "libc"}, &system_calls},
    {{"lock", "an atomic add to memory in the CPU's own cache: lock add", kAtomicSource},
     &on_cell<&locked_add>},
    {{"add", "the same add without LOCK", kAtomicSource}, &on_cell<&plain_add>},
    {{"lock_cmpxchg", "an atomic compare and exchange that succeeds: lock cmpxchg", kAtomicSource},
     &on_cell_and_register<&locked_compare_exchange, 0>},
    {{"cmpxchg", "the same compare and exchange without LOCK", kAtomicSource},
     &on_cell_and_register<&plain_compare_exchange, 0>},
    {{"lock_xchg", "an atomic exchange with memory: xchg, which locks without the prefix", kAtomicSource},
     &on_cell_and_register<&locked_exchange, 1>},
    {{"load_store", "the same exchange without a lock: a load and a store", kAtomicSource},
     &on_cell_and_register<&plain_exchange, 1>},
    {{"store_fence", kStoreFenceHow, kAtomicSource}, &fenced_stores},
    {{"indirect_call", "a call through a pointer and its return, in user space: no retpoline", "C++"},
     &indirect_calls},
};

// Answers each odd number with the next even one, until it is told to stop.
void answer(std::atomic<std::uint64_t>& turn, const StopFlag& stop) {
    for (unsigned waited = 0;;) {
        const std::uint64_t seen = turn.load(std::memory_order_acquire);
        if (seen % 2 == 1) {
            turn.store(seen + 1, std::memory_order_release);
        } else if (++waited % kLookEvery == 0 && stop.is_set()) {
            return;
        }
    }
}

// Transfers made: two for each answered number.
std::uint64_t ask(std::atomic<std::uint64_t>& turn, std::uint64_t count, std::int64_t deadline_ns) {
    unsigned waited = 0;
    for (std::uint64_t done = 0; done < count; done += 2) {
        turn.store(done + 1, std::memory_order_release);
        while (turn.load(std::memory_order_acquire) != done + 2) {
            if (++waited % kLookEvery == 0 && monotonic_ns() > deadline_ns) return done;
        }
    }
    return count;
}

// The thread on the other CPU, until this is destroyed; `check` throws what kept it from that CPU.
class Partner {
  public:
    Partner(std::atomic<std::uint64_t>& turn, int cpu) : thread_([this, &turn, cpu] { run(turn, cpu); }) {
        while (!ready_.load()) std::this_thread::yield();
    }
    ~Partner() {
        stop_.set();
        thread_.join();
    }
    Partner(const Partner&) = delete;
    Partner& operator=(const Partner&) = delete;
    void check() const {
        if (failure_) std::rethrow_exception(failure_);
    }

  private:
    void run(std::atomic<std::uint64_t>& turn, int cpu) {
        try {
            const CpuPin pin(cpu);
            ready_.store(true);
            answer(turn, stop_);
        } catch (...) {
            failure_ = std::current_exception();
            ready_.store(true);
        }
    }

    StopFlag stop_;
    std::atomic<bool> ready_{false};
    std::exception_ptr failure_;
    std::thread thread_;  // last: it uses the others
};

}  // namespace

std::vector<Microcost> microcosts() {
    std::vector<Microcost> found;
    for (const Operation& each : kOperations) found.push_back(each.about);
    return found;
}

Microcost shared_line() {
    return {"shared_line", "a cache line that two CPUs write in turn, a transfer", "std::atomic"};
}

MicrocostBlock microcost_block(const std::string& name, std::uint64_t count, int cpu) {
    if (count % kOperationsPerTurn != 0) {
        throw std::invalid_argument("count " + std::to_string(count) + ": give a multiple of " +
                                    std::to_string(kOperationsPerTurn));
    }
    for (const Operation& each : kOperations) {
        if (name != each.about.name) continue;
        const CpuPin pin(cpu);
        const std::int64_t switches = involuntary_switches();
        const std::int64_t start_ns = monotonic_ns();
        const std::uint64_t done = each.run(count);
        const std::int64_t elapsed_ns = monotonic_ns() - start_ns;
        return {elapsed_ns, done, involuntary_switches() - switches};
    }
    throw std::invalid_argument("no operation '" + name + "'");
}

MicrocostBlock shared_line_block(std::uint64_t count, int cpu, int other_cpu, std::int64_t within_ns) {
    if (count % 2 != 0) throw std::invalid_argument("count " + std::to_string(count) + ": give an even one");
    if (cpu == other_cpu) throw std::invalid_argument("a shared line needs two CPUs");
    Cell turn;
    const Partner partner(turn.value,
                          other_cpu);  // before this thread is pinned: it inherits what is allowed
    partner.check();
    const CpuPin pin(cpu);
    const std::int64_t switches = involuntary_switches();
    const std::int64_t start_ns = monotonic_ns();
    const std::uint64_t done = ask(turn.value, count, start_ns + within_ns);
    const std::int64_t elapsed_ns = monotonic_ns() - start_ns;
    return {elapsed_ns, done, involuntary_switches() - switches};
}

}  // namespace labkit
