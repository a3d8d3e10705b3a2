// What a process still has: threads that close sockets apart, and descriptors.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <thread>

inline std::size_t entries(const char* folder) {
    const std::filesystem::directory_iterator all(folder);
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

// This thread, and those that have not ended after 20 s.
inline std::size_t threads_that_stay() {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (entries("/proc/self/task") > 1 && std::chrono::steady_clock::now() < give_up)
        std::this_thread::yield();
    return entries("/proc/self/task");
}
