#include "framework/plan/statistics.h"

#include "framework/plan/text.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(StatisticsTest, CountsMessagesAndBoxings) {
  const absl::StatusOr<plan::Plan> plan = ParsePlan(R"(
    actor feed on d0.host x 4; x = feed(1)
    actor model on d0.compute x 4; G += mul(x, w) flops 10
    actor move on d1.comm; R = box "P->B" (G) wire 64 scope "w.grad"
    actor back on d0.comm; S = box "P->B" (R) wire 64 scope "w.grad"
    actor update on d0.compute; w -= copy(S)
    reg w tokens 1; reg G every 4)");
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto index = ProgramIndex::Build(plan->programs(0));
  ASSERT_TRUE(index.ok());
  const ProgramStatistics count = CountProgram(*index);
  EXPECT_EQ(count.instances, 4 + 4 + 1 + 1 + 1);
  EXPECT_EQ(count.flops, 40);
  EXPECT_EQ(count.wire_bytes, 128);
  // Each token one req and one ack: x 4, w, G, R, S.
  EXPECT_EQ(count.messages, 2 * (4 + 4));
  EXPECT_EQ(SummarizePlan(*plan, false),
            "program main: 5 actors, 5 registers, 5 instructions, 16 messages a step\n"
            "  boxing box P->B w.grad: 2 x 1, 128 bytes a step\n");
}

}  // namespace
}  // namespace sluice
