// Logarithmic buckets: 16 an octave, so that a bucket is at most 6.25 % wide. 0 to 15 are exact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace labkit {

class Histogram {
  public:
    static constexpr std::size_t kSub = 16;
    static constexpr std::size_t kBuckets = 61 * kSub;

    Histogram() : counts_(kBuckets) {}

    static std::size_t bucket(std::uint64_t value) {
        if (value < kSub) return static_cast<std::size_t>(value);
        const auto octave = static_cast<std::size_t>(63 - __builtin_clzll(value));
        return (octave - 3) * kSub + static_cast<std::size_t>(value >> (octave - 4)) - kSub;
    }

    // Smallest value of a bucket.
    static std::uint64_t floor(std::size_t bucket) {
        if (bucket < kSub) return bucket;
        if (bucket >= kBuckets) throw std::out_of_range("histogram: buckets go from 0 to 975");
        return static_cast<std::uint64_t>(kSub + bucket % kSub) << (bucket / kSub - 1);
    }

    void add(std::uint64_t value) { ++counts_[bucket(value)]; }
    const std::vector<std::uint64_t>& counts() const { return counts_; }

  private:
    std::vector<std::uint64_t> counts_;
};

}  // namespace labkit
