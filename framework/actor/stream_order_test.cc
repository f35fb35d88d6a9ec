#include "framework/actor/stream_order.h"

#include "framework/plan/text.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(StreamOrderTest, GoesRoundItsTurns) {
  const plan::Plan plan = *ParsePlan(R"(
    actor a on d0.compute x 2
      f()
      g()
    actor b on d0.compute; h()
    actor c on d0.host; h()
    order d0.compute (a 0 0 1) (b 0 0 1) (a 0 1 2) (a 1 0 2))");
  StreamOrder order(plan.programs(0).streams(0));
  for (int step = 0; step < 2; ++step) {
    EXPECT_EQ(order.actor(), 0);
    EXPECT_TRUE(order.Allows(0, 0, 0));
    EXPECT_FALSE(order.Allows(0, 0, 1));
    EXPECT_FALSE(order.Allows(0, 1, 0));
    EXPECT_TRUE(order.Advance(0));
    EXPECT_EQ(order.actor(), 1);
    EXPECT_TRUE(order.Advance(0));
    EXPECT_TRUE(order.Allows(0, 0, 1));
    EXPECT_TRUE(order.Advance(1));
    EXPECT_FALSE(order.Advance(0));  // two instructions in one turn
    EXPECT_TRUE(order.Allows(0, 1, 1));
    EXPECT_TRUE(order.Advance(1));
  }
  StreamOrder unlisted(plan.programs(0).streams(1));
  EXPECT_EQ(unlisted.actor(), -1);
  EXPECT_TRUE(unlisted.Allows(2, 0, 0));
  EXPECT_FALSE(unlisted.Advance(0));
}

}  // namespace
}  // namespace sluice
