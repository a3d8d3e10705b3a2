#include <cstring>

#include "affinity.h"
#include "frame_table.h"
#include "harness.h"

using labkit::FrameTable;

namespace {

const std::vector<std::uint8_t> block{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};

FrameTable table(std::vector<std::uint64_t> offsets, std::vector<std::uint32_t> lengths) {
    return FrameTable(block.data(), block.size(), std::move(offsets), std::move(lengths));
}

}  // namespace

CASE(table_owns_a_copy_of_the_block) {
    std::vector<std::uint8_t> mine = block;
    const FrameTable copy(mine.data(), mine.size(), {3}, {4});
    std::memset(mine.data(), 0xff, mine.size());
    mine.clear();
    mine.shrink_to_fit();
    const iovec frame = copy.frame(0);
    EQUAL(frame.iov_len, 4U);
    EQUAL(std::memcmp(frame.iov_base, block.data() + 3, 4), 0);
}

CASE(frames_may_touch_the_end_and_overlap) {
    const FrameTable made = table({0, 9, 10, 4}, {10, 1, 0, 6});
    EQUAL(made.size(), 4U);
    EQUAL(made.frame(1).iov_len, 1U);
    EQUAL(*static_cast<std::uint8_t*>(made.frame(1).iov_base), 9);
}

CASE(frames_outside_the_block_are_refused) {
    THROWS(std::invalid_argument, table({0}, {11}));
    THROWS(std::invalid_argument, table({10}, {1}));
    THROWS(std::invalid_argument, table({11}, {0}));
    THROWS(std::invalid_argument, table({~0ULL}, {2}));
    THROWS(std::invalid_argument, table({0, 5}, {5, ~0U}));
}

CASE(empty_and_uneven_tables_are_refused) {
    THROWS(std::invalid_argument, table({}, {}));
    THROWS(std::invalid_argument, table({0, 1}, {1}));
}

CASE(cpu_lists_read_like_people_write_them) {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    EQUAL(labkit::cpu_list(mask), "");
    for (const int cpu : {0, 1, 2, 8, 1023}) CPU_SET(cpu, &mask);
    EQUAL(labkit::cpu_list(mask), "0-2,8,1023");
}

CASE(pin_outside_the_mask_is_refused_and_a_good_one_is_undone) {
    cpu_set_t before;
    sched_getaffinity(0, sizeof before, &before);
    THROWS(std::invalid_argument, labkit::CpuPin(CPU_SETSIZE));
    THROWS(std::invalid_argument, labkit::CpuPin(-1));
    const int allowed = sched_getcpu();
    {
        const labkit::CpuPin pin(allowed);
        cpu_set_t during;
        sched_getaffinity(0, sizeof during, &during);
        EQUAL(labkit::cpu_list(during), std::to_string(allowed));
    }
    cpu_set_t after;
    sched_getaffinity(0, sizeof after, &after);
    CLAIM(CPU_EQUAL(&before, &after));
}
