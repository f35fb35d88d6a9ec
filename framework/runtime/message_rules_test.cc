// What is kept of the numbers that another rank leaves out, which may still come: it has a bound,
// however long it goes on; and numbers of rounds that are none. lying_rank_test.cc has what becomes
// of messages that break the rules.
#include "framework/runtime/message_rules.h"

#include <cstdint>
#include <limits>

#include "framework/runtime/test_ranks.h"
#include "framework/runtime/waits.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using Kind = WireMessage::Kind;

constexpr int32_t kFrom = 1, kRanks = kTestRanks;
constexpr int64_t kRounds = 10'000;
// The most that any of the rules lets a rank be behind with: beginnings of steps that have ended.
constexpr int64_t kMostLeftOut = 64 + 2;

WireMessage AnswerTo(int64_t round) {
  RankWaits waits;
  waits.rank = kFrom;
  WireMessage message;
  message.kind = Kind::kWaits;
  message.sequence = round;
  message.text = WaitsToBytes(waits);
  return message;
}

class MessageRulesTest : public testing::Test {
 protected:
  // Whether rank 1 may say it.
  bool MaySay(Kind kind, int64_t sequence) {
    WireMessage message;
    message.kind = kind;
    message.sequence = sequence;
    return rules_.Check(kFrom, message).ok();
  }

  const plan::Plan plan_ = TestPlanOfRank(0, plan::DEVICE_CPU);
  MessageRules rules_{&plan_, 0, kRanks, /*clock=*/nullptr};
};

TEST_F(MessageRulesTest, RoundsThatARankSeldomAnswers) {
  for (int64_t round = 1; round <= kRounds; ++round) {
    rules_.AskedWaits(round);
    if (round % 3 == 0) {
      EXPECT_TRUE(rules_.Check(kFrom, AnswerTo(round)).ok()) << round;
    }
    EXPECT_LE(rules_.left_out(), kMostLeftOut);
  }
  // What comes late of the newest rounds may come once; nobody looks at what comes later than that.
  EXPECT_TRUE(rules_.Check(kFrom, AnswerTo(kRounds - 2)).ok());
  EXPECT_FALSE(rules_.Check(kFrom, AnswerTo(kRounds - 2)).ok());
  EXPECT_TRUE(rules_.Check(kFrom, AnswerTo(1)).ok());
  EXPECT_TRUE(rules_.Check(kFrom, AnswerTo(1)).ok());
  EXPECT_FALSE(rules_.Check(kFrom, AnswerTo(kRounds + 1)).ok());
  EXPECT_FALSE(rules_.Check(kFrom, AnswerTo(0)).ok());
}

TEST_F(MessageRulesTest, RoundsThatAreNone) {
  for (const int64_t round : {int64_t{0}, kStoodStill - 1, std::numeric_limits<int64_t>::min()}) {
    EXPECT_FALSE(MaySay(Kind::kAskWaits, round)) << round;
    EXPECT_FALSE(rules_.Check(kFrom, AnswerTo(round)).ok()) << round;
  }
}

// Its steps are over everywhere, as it says their ends.
TEST_F(MessageRulesTest, BeginningsThatARankLeavesOut) {
  int64_t step = 0;
  for (; step < kRounds; ++step) {
    if (step % 2 == 0) {
      EXPECT_TRUE(MaySay(Kind::kBegan, step));
    }
    if (!MaySay(Kind::kEnded, step)) break;
    rules_.Over(0);
    EXPECT_LE(rules_.left_out(), kMostLeftOut);
  }
  EXPECT_LT(step, kRounds);
}

TEST_F(MessageRulesTest, QuestionsThatARankLeavesOut) {
  for (const Kind kind : {Kind::kSays, Kind::kAskWaits}) {
    int64_t number = 1;
    while (number < kRounds && MaySay(kind, number)) number += 2;
    EXPECT_LT(number, kRounds);
    EXPECT_LE(rules_.left_out(), kMostLeftOut);
  }
}

}  // namespace
}  // namespace sluice
