#include <sched.h>

#include <cstring>
#include <set>

#include "clock.h"
#include "harness.h"
#include "microcosts.h"

using labkit::MicrocostBlock;

namespace {

cpu_set_t allowed() {
    cpu_set_t mask;
    sched_getaffinity(0, sizeof mask, &mask);
    return mask;
}

int allowed_after(int cpu) {
    const cpu_set_t mask = allowed();
    for (++cpu; cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(cpu, &mask)) return cpu;
    }
    return -1;
}

}  // namespace

CASE(every_operation_leaves_as_many_marks_as_were_asked_for) {
    for (const labkit::Microcost& each : labkit::microcosts()) {
        for (const std::uint64_t count : {8U, 800U}) {
            const MicrocostBlock block = labkit::microcost_block(each.name, count, allowed_after(-1));
            EQUAL(block.done, count);
            CLAIM(block.elapsed_ns >= 0);
            CLAIM(block.involuntary_switches >= 0);
        }
    }
}

CASE(operations_have_names_of_their_own_and_say_what_they_are) {
    std::set<std::string> names{labkit::shared_line().name};
    for (const labkit::Microcost& each : labkit::microcosts()) {
        CLAIM(names.insert(each.name).second);
        CLAIM(std::strlen(each.how) > 0);
        CLAIM(std::strlen(each.source) > 0);
    }
}

CASE(operations_of_the_cpu_name_what_they_are_made_of) {
#if defined(__x86_64__) && !defined(LABKIT_NO_ASSEMBLY)
    const std::string wanted = "x86-64 instructions";
#else
    const std::string wanted = "std::atomic";
#endif
    int found = 0;
    for (const labkit::Microcost& each : labkit::microcosts()) found += each.source == wanted;
    EQUAL(found, 7);
}

CASE(a_block_leaves_the_thread_where_it_was_allowed) {
    const cpu_set_t before = allowed();
    labkit::microcost_block("lock", 8, allowed_after(-1));
    const cpu_set_t after = allowed();
    CLAIM(CPU_EQUAL(&before, &after));
}

CASE(requests_that_make_no_sense_are_refused) {
    const int cpu = allowed_after(-1);
    THROWS(std::invalid_argument, labkit::microcost_block("locks", 8, cpu));
    THROWS(std::invalid_argument, labkit::microcost_block("lock", 7, cpu));
    THROWS(std::invalid_argument, labkit::microcost_block("lock", 8, -1));
    THROWS(std::invalid_argument, labkit::microcost_block("lock", 8, CPU_SETSIZE));
    THROWS(std::invalid_argument, labkit::shared_line_block(2, cpu, cpu, 1));
    THROWS(std::invalid_argument, labkit::shared_line_block(3, cpu, cpu + 1, 1));
    THROWS(std::invalid_argument, labkit::shared_line_block(2, cpu, CPU_SETSIZE, 1));
    THROWS(std::invalid_argument, labkit::shared_line_block(2, CPU_SETSIZE, cpu, 1));
}

CASE(a_line_goes_to_and_fro_as_often_as_asked) {
    const int cpu = allowed_after(-1);
    const int other_cpu = allowed_after(cpu);
    if (other_cpu < 0) return;  // one CPU: Python says so in its record
    EQUAL(labkit::shared_line_block(0, cpu, other_cpu, 1).done, 0U);
    EQUAL(labkit::shared_line_block(2'000, cpu, other_cpu, 60'000'000'000).done, 2'000U);
}

CASE(a_line_that_runs_out_of_time_says_how_far_it_came) {
    const int cpu = allowed_after(-1);
    const int other_cpu = allowed_after(cpu);
    if (other_cpu < 0) return;
    const std::uint64_t endless = std::uint64_t{1} << 60U;
    CLAIM(labkit::shared_line_block(endless, cpu, other_cpu, 1'000'000).done < endless);
}
