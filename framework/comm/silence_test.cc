#include "framework/comm/silence.h"

#include <chrono>
#include <optional>

#include "framework/comm/tcp_net.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Verdict = Silence::Verdict;
using Time = Silence::Clock::time_point;

constexpr seconds kLimit(60);

Silence::Times Defaults() {
  const TcpNetOptions options;
  return {options.beat, options.silence, kLimit};
}

// When who is last heard at the beginning, by a rank that looks `first` later and then at each
// beat, is named and given up.
struct Told {
  std::optional<Silence::Clock::duration> named, lost;
};
Told Watch(const Silence::Times& times, Silence::Clock::duration first) {
  Silence silence(times);
  const Time begin{};
  silence.Heard(begin);
  Told told;
  for (Time now = begin + first; !told.lost && now < begin + 2 * kLimit; now += times.beat) {
    const Verdict verdict = silence.At(now);
    if (verdict == Verdict::kNamed) {
      EXPECT_FALSE(told.named.has_value()) << "it is named twice";
      told.named = now - begin;
    }
    if (verdict == Verdict::kLost) told.lost = now - begin;
  }
  return told;
}

TEST(SilenceTest, WhoStandsStillIsNamedWithinFiveSecondsAndGivenUpABeatAfterTheLimit) {
  const Silence::Times times = Defaults();
  for (milliseconds first(0); first < times.beat; first += milliseconds(50)) {
    const Told told = Watch(times, first);
    ASSERT_TRUE(told.named && told.lost);
    EXPECT_LE(*told.named, seconds(5));
    EXPECT_GE(*told.lost, kLimit);
    EXPECT_LE(*told.lost, kLimit + times.beat);
  }
}

TEST(SilenceTest, WhoIsHeardAgainIsNamedAgain) {
  Silence silence({seconds(1), seconds(3), kLimit});
  Time now{};
  for (int time = 0; time < 2; ++time) {
    silence.Heard(now);
    int named = 0;
    for (int beat = 0; beat < 10; ++beat) named += silence.At(now += seconds(1)) == Verdict::kNamed;
    EXPECT_EQ(named, 1);
  }
}

// It looks at the others before it reads what they have said meanwhile.
TEST(SilenceTest, WhoWasStoppedItselfBlamesNobody) {
  Silence silence(Defaults());
  Time now{};
  silence.Heard(now);
  EXPECT_EQ(silence.At(now += milliseconds(300)), Verdict::kNone);
  EXPECT_EQ(silence.At(now += 2 * kLimit), Verdict::kNone);
  EXPECT_EQ(silence.UntilItMissesBeats(now), milliseconds(700));  // 0.3 s and a beat are over
  // Who says nothing from then on is told of, all the same.
  bool named = false, lost = false;
  for (int beat = 0; beat <= kLimit.count(); ++beat) {
    const Verdict verdict = silence.At(now += seconds(1));
    named = named || verdict == Verdict::kNamed;
    lost = lost || verdict == Verdict::kLost;
  }
  EXPECT_TRUE(named && lost);
}

TEST(SilenceTest, OneBeatMayBeLate) {
  Silence silence(Defaults());
  Time now{};
  silence.Heard(now);
  EXPECT_EQ(silence.UntilItMissesBeats(now), seconds(2));
  EXPECT_EQ(silence.UntilItMissesBeats(now += milliseconds(1900)), milliseconds(100));
  EXPECT_EQ(silence.UntilItMissesBeats(now += milliseconds(100)), seconds(0));
  EXPECT_EQ(silence.UntilItMissesBeats(now += milliseconds(100)), seconds(0));
  silence.Heard(now);
  EXPECT_EQ(silence.UntilItMissesBeats(now), seconds(2));
}

TEST(SilenceTest, TheReasonSaysForHowLong) {
  Silence silence(Defaults());
  const Time begin{};
  silence.Heard(begin);
  EXPECT_EQ(silence.ErrorAt(begin + milliseconds(60700)).message(), "it said nothing for 60 s");
}

}  // namespace
}  // namespace sluice
