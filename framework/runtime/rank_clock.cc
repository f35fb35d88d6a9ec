#include "framework/runtime/rank_clock.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "framework/runtime/trace.h"

namespace sluice {
namespace {

constexpr int kExchanges = 32;
constexpr auto kLimit = std::chrono::seconds(1);  // of all of them

}  // namespace

void RankClock::Measure(CommNet* net) {
  const auto end = std::chrono::steady_clock::now() + kLimit;
  std::optional<Point> best;
  for (int n = 0; n < kExchanges; ++n) {
    WireMessage ask;
    ask.kind = WireMessage::Kind::kAskClock;
    ask.sequence = NowNanoseconds();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      awaited_.push_back(ask.sequence);
    }
    net->Send(0, std::move(ask));
    std::unique_lock<std::mutex> lock(mutex_);
    if (!changed_.wait_until(lock, end, [this] { return answer_.has_value(); })) break;
    if (!best.has_value() || answer_->error < best->error) best = answer_;
    answer_.reset();
  }
  if (best.has_value()) points_.push_back(*best);
}

void RankClock::Receive(CommNet* net, int32_t from, const WireMessage& message) {
  const int64_t now = NowNanoseconds();
  if (message.kind == WireMessage::Kind::kAskClock) {
    WireMessage answer;
    answer.kind = WireMessage::Kind::kClock;
    answer.sequence = message.sequence;
    answer.number = now - start_;
    return net->Send(from, std::move(answer));
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    // What comes after its limit answers nobody any more.
    const bool newest = !awaited_.empty() && awaited_.back() == message.sequence;
    // Once alone: two questions may have the same time where a clock is coarse.
    const auto found = std::find(awaited_.begin(), awaited_.end(), message.sequence);
    if (found != awaited_.end()) awaited_.erase(found);
    if (!newest) return;
    // Rank 0 read its clock at some moment between both.
    answer_ = {message.sequence + (now - message.sequence) / 2, message.number,
               (now - message.sequence + 1) / 2};
  }
  changed_.notify_all();
}

bool RankClock::Awaits(int64_t time) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::count(awaited_.begin(), awaited_.end(), time) > 0;
}

int64_t RankClock::ToFirst(int64_t here) const {
  if (points_.empty()) return here - start_;
  // Between the points neither offset is further off than its error. Beyond them the line would be.
  const Point &a = points_.front(), &b = points_.back();
  const int64_t begin = a.first - a.here, end = b.first - b.here;
  if (here <= a.here) return here + begin;
  if (here >= b.here) return here + end;
  const double share = static_cast<double>(here - a.here) / static_cast<double>(b.here - a.here);
  return here + begin + static_cast<int64_t>(share * static_cast<double>(end - begin));
}

std::optional<int64_t> RankClock::error() const {
  if (points_.empty()) return std::nullopt;
  return std::max(points_.front().error, points_.back().error);
}

}  // namespace sluice
