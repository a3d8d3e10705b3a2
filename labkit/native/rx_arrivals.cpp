#include <algorithm>
#include <cstring>

#include "rx.h"

namespace labkit {
namespace {

// Room for the heads of frames that are longer than any of the table; their rest is not looked at.
constexpr std::size_t kHeadBytes = 128;

}  // namespace

Arrivals::Arrivals(const FrameTable& table, const RxConfig& config, const Progress& sender)
    : known_(table, config.check),
      tracker_(config.check.first_number),
      sender_(sender),
      burst_frames_(config.burst_frames),
      tagged_(known_.longest() + kHeadBytes) {}

void Arrivals::batch(std::int64_t now_ns) {
    arrival_ns_ = now_ns;
    if (!burst_frames_) return;
    start_ns_ = sender_.start_ns();
    frame_ns_ = sender_.frame_ns().value_or(0);
}

void Arrivals::frame(const ArrivedFrame& frame) {
    if (frame.outgoing) {
        ++report_.foreign;
        return;
    }
    const Judged judged = known_.judge(as_sent(frame), tracker_);
    if (judged.verdict == Verdict::kForeign) {
        ++report_.foreign;
        return;
    }
    ++report_.received;
    report_.corrupted += judged.verdict == Verdict::kCorrupted ? 1 : 0;
    if (judged.place < 0) return;
    tracker_.add(judged.place);
    if (start_ns_) time(judged.place);
}

void Arrivals::time(std::int64_t place) {
    const std::int64_t first = place - place % *burst_frames_;
    const std::int64_t due_ns =
        *start_ns_ + static_cast<std::int64_t>(static_cast<double>(first) * frame_ns_);
    const auto latency_ns = static_cast<std::uint64_t>(std::max<std::int64_t>(0, arrival_ns_ - due_ns));
    report_.latency_ns.add(latency_ns);
    report_.latency_most_ns = std::max(report_.latency_most_ns, latency_ns);
}

SentBytes Arrivals::as_sent(const ArrivedFrame& frame) {
    if (!frame.tag || frame.captured_bytes < kAddressBytes) {
        return {frame.bytes, frame.captured_bytes, frame.frame_bytes, frame.unsummed};
    }
    const std::size_t rest =
        std::min(frame.captured_bytes - kAddressBytes, tagged_.size() - kAddressBytes - kVlanTagBytes);
    std::uint8_t* const at = tagged_.data();
    std::memcpy(at, frame.bytes, kAddressBytes);
    for (std::size_t i = 0; i < kVlanTagBytes; ++i) {
        at[kAddressBytes + i] = static_cast<std::uint8_t>(*frame.tag >> (8 * (kVlanTagBytes - 1 - i)));
    }
    std::memcpy(at + kAddressBytes + kVlanTagBytes, frame.bytes + kAddressBytes, rest);
    return {at, kAddressBytes + kVlanTagBytes + rest, frame.frame_bytes + kVlanTagBytes, frame.unsummed};
}

RxReport Arrivals::report() const {
    RxReport report = report_;
    report.distinct = tracker_.distinct();
    report.duplicates = tracker_.duplicates();
    report.reordered = tracker_.reordered();
    report.beyond_window = tracker_.beyond_window();
    return report;
}

}  // namespace labkit
