#include "framework/runtime/rank_clock.h"

#include <chrono>
#include <cstdlib>
#include <thread>

#include "absl/strings/str_cat.h"
#include "framework/comm/in_process_net.h"
#include "framework/plan/plan.pb.h"
#include "framework/runtime/trace.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

constexpr int64_t kStart = 123456789;

class ClockEnd final : public CommNet::Receiver {
 public:
  ClockEnd(CommNet* net, RankClock* clock) : net_(*net), clock_(*clock) { net_.Open(this); }
  ~ClockEnd() override { net_.Close(); }
  void Receive(int32_t from, const WireMessage& message) override {
    clock_.Receive(&net_, from, message);
  }
  absl::StatusOr<absl::Span<const std::byte>> Locate(int32_t, const PullRequest&) override {
    return absl::InternalError("nothing is pulled");
  }
  void PullEnded(int32_t, int64_t, const absl::Status&) override {}

 private:
  CommNet& net_;
  RankClock& clock_;
};

// Both ends read the same clock, so that it is known how far off what was found is.
TEST(RankClockTest, IsWithinTheErrorThatItStates) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    InProcessNetOptions delays;
    delays.seed = seed;
    delays.most_delay = std::chrono::microseconds(500);
    InProcessNet net(2, delays);
    RankClock first(kStart), other(0);
    const ClockEnd ends[] = {{net.endpoint(0), &first}, {net.endpoint(1), &other}};
    EXPECT_FALSE(other.error().has_value());
    other.Measure(net.endpoint(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    other.Measure(net.endpoint(1));
    ASSERT_TRUE(other.error().has_value());
    EXPECT_GT(*other.error(), 0);
    const int64_t now = NowNanoseconds();
    EXPECT_EQ(first.ToFirst(now), now - kStart);
    for (const int64_t time : {now - 20'000'000, now - 10'000'000, now}) {
      EXPECT_LE(std::abs(other.ToFirst(time) - first.ToFirst(time)), *other.error());
    }
  }
}

// Delays of up to half a millisecond within 20 ms make clocks that seem to run up to some percent
// apart.
TEST(RankClockTest, SpansThatTouchHereTouchInTheFirstRanksTime) {
  plan::Plan plan;
  plan.add_programs()->set_name("train");
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    InProcessNetOptions delays;
    delays.seed = seed;
    delays.most_delay = std::chrono::microseconds(500);
    InProcessNet net(2, delays);
    RankClock first(kStart), other(0);
    const ClockEnd ends[] = {{net.endpoint(0), &first}, {net.endpoint(1), &other}};
    WorkerTrace trace;
    other.Measure(net.endpoint(1));
    int64_t now = NowNanoseconds();
    trace.Start(true, now);
    for (int wait = 0; wait < 3; ++wait) {
      TraceSpan span;
      span.begin = now;
      std::this_thread::sleep_for(std::chrono::milliseconds(7));
      trace.Add(span, now = NowNanoseconds());
    }
    other.Measure(net.endpoint(1));
    const WorkerTrace* const worker = &trace;
    TraceSource source;
    source.rank = 1;
    source.clock = &other;
    source.workers = absl::MakeConstSpan(&worker, 1);
    double end = 0;
    int waits = 0;
    for (const auto& event :
         nlohmann::json::parse(absl::StrCat("[", MakeTracePart(plan, source).events, "]"))) {
      if (event["ph"] != "X") continue;
      const double begin = event["ts"];
      EXPECT_NEAR(begin, ++waits == 1 ? begin : end, 0.002)
          << seed;  // microseconds of three digits
      end = begin + event["dur"].get<double>();
    }
    EXPECT_EQ(waits, 3);
  }
}

TEST(RankClockTest, WithoutAnAnswerThereIsNone) {
  InProcessNet net(2, {});
  RankClock other(0);
  const ClockEnd end(net.endpoint(1), &other);
  const auto begin = std::chrono::steady_clock::now();
  other.Measure(net.endpoint(1));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3));
  EXPECT_FALSE(other.error().has_value());
}

}  // namespace
}  // namespace sluice
