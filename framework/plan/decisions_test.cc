#include "framework/plan/decisions.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

plan::Plan PlanOf(absl::string_view second) {
  plan::Plan plan;
  DecisionRoll roll(&plan);
  roll.Add("mesh", "data=2");
  roll.Add("signature of train, up", second);
  roll.Add("signature of train, down", "model:S0");
  return plan;
}

TEST(DecisionsTest, TheFirstThatDiffersIsNamed) {
  const std::string mine = DecisionsText(PlanOf("model:S1"));
  EXPECT_EQ(CompareDecisions(mine, DecisionsText(PlanOf("model:S1"))), absl::OkStatus());
  // All behind it differ as well: the digest rolls.
  const absl::Status differs = CompareDecisions(mine, DecisionsText(PlanOf("B")));
  EXPECT_EQ(differs.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(differs.message()),
              testing::ContainsRegex("number 1: expected \".*train, up\", got \".*train, up\""));
}

TEST(DecisionsTest, TheVeryFirstIsCompared) {
  plan::Plan one, other;
  for (plan::Plan* plan : {&one, &other}) {
    DecisionRoll roll(plan);
    roll.Add("signature of train, up", plan == &one ? "model:S1" : "B");
    roll.Add("signature of train, down", "model:S0");
  }
  EXPECT_THAT(std::string(CompareDecisions(DecisionsText(one), DecisionsText(other)).message()),
              testing::HasSubstr("number 0"));
}

TEST(DecisionsTest, OneMoreIsADifference) {
  plan::Plan longer = PlanOf("B");
  DecisionRoll(&longer).Add("order of train, stream 0", "1 2");
  EXPECT_THAT(
      std::string(CompareDecisions(DecisionsText(PlanOf("B")), DecisionsText(longer)).message()),
      testing::HasSubstr("number 3"));
}

}  // namespace
}  // namespace sluice
