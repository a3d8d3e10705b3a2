#include "pacing.h"

#include <cmath>
#include <stdexcept>

namespace labkit {
namespace {

constexpr double kNsPerS = 1e9;
constexpr double kBurstNs = 1e6;
constexpr double kDepthNs = 1e7;
constexpr double kNeverNs = 1e18;  // 31 years: slower rates come to the same, and fit in 64 bits

}  // namespace

Pacer::Pacer(double rate_pps, std::int64_t start_ns, std::uint32_t batch, bool even) : start_ns_(start_ns) {
    if (!(rate_pps > 0) || !std::isfinite(rate_pps))
        throw std::invalid_argument("rate_pps must be a number above 0");
    frame_ns_ = std::min(kNsPerS / rate_pps, kNeverNs);
    depth_ns_ = std::max(kDepthNs, frame_ns_);
    const double most = even && rate_pps < kEvenPps ? 1.0 : static_cast<double>(batch);
    burst_ = static_cast<std::uint32_t>(std::clamp(kBurstNs / frame_ns_, 1.0, most));
}

void Pacer::took(std::uint32_t frames, std::int64_t now_ns) {
    due_after_ns_ += frames * frame_ns_;
    due_after_ns_ = std::max(due_after_ns_, static_cast<double>(now_ns - start_ns_) - depth_ns_);
}

}  // namespace labkit
