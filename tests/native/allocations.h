// How often this thread asks for memory during a piece of work.
#pragma once

#include <cstddef>

#include "harness.h"

// Of the sanitizers' run-time library (sanitizer/allocator_interface.h, which not every compiler brings
// along).
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void*, std::size_t),
                                                         void (*on_free)(const volatile void*));

namespace allocations {

inline thread_local std::size_t counted = 0;

inline void count(const volatile void*, std::size_t) { ++counted; }
inline void ignore(const volatile void*) {}

// Once, for hooks add up.
inline bool are_counted() {
    static const bool installed = __sanitizer_install_malloc_and_free_hooks(count, ignore) > 0;
    return installed;
}

template <class Work>
std::size_t of(const Work& work) {
    CLAIM(are_counted());
    const std::size_t before = counted;
    work();
    return counted - before;
}

}  // namespace allocations
