#include "framework/plan/happens_before.h"

#include "framework/plan/proof.h"
#include "framework/plan/text.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

struct Fixture {
  explicit Fixture(const char* text) {
    plan::Plan plan = *ParsePlan(text);
    program = plan.programs(0);
    index = *ProgramIndex::Build(program);
    Certificate certificate;
    EXPECT_EQ(ProveLive(index, &certificate), absl::OkStatus());
    rank = certificate.position;
  }
  int32_t Instance(int a, int f, int i) const { return index.InstanceOf(a, f, i); }
  plan::Program program;
  ProgramIndex index;
  std::vector<int32_t> rank;
};

TEST(HappensBeforeTest, FollowsListsTokensAndSlots) {
  const Fixture f(R"(
    actor a on d0.compute
      x = f()
      y = f()
    actor b on d1.comm; z = g(x)
    actor c on d0.compute; h(z)
    order d0.compute (a 0 0 2) (c 0 0 1))");
  const HappensBefore order(f.index, f.rank);
  EXPECT_TRUE(order.Ordered(f.Instance(0, 0, 0), f.Instance(2, 0, 0), false));
  EXPECT_TRUE(order.Ordered(f.Instance(0, 0, 0), f.Instance(1, 0, 0), false));
  EXPECT_FALSE(order.OrderedExactly(f.Instance(0, 0, 1), f.Instance(1, 0, 0), false));
  EXPECT_FALSE(order.OrderedExactly(f.Instance(1, 0, 0), f.Instance(0, 0, 1), false));
  EXPECT_TRUE(order.Ordered(f.Instance(1, 0, 0), f.Instance(2, 0, 0), false));
  // Into the next step: x's slot is free when b has read it.
  EXPECT_TRUE(order.Ordered(f.Instance(1, 0, 0), f.Instance(0, 0, 0), true));
  EXPECT_TRUE(order.Ordered(f.Instance(2, 0, 0), f.Instance(0, 0, 0), true));
}

// What one side of is listed is never left to the exact search, wherever in the list that is.
TEST(HappensBeforeTest, EveryPlaceOfAListIsKnown) {
  const Fixture f(R"(
    actor sent on d1.comm; s = f()
    actor list on d0.compute
      x = f(s)
      y = f(s)
      z = f(s)
    actor x_read on d2.comm; g(x)
    actor y_read on d3.comm; g(y)
    actor z_read on d4.comm; g(z)
    order d0.compute (list 0 0 3))");
  const HappensBefore order(f.index, f.rank);
  for (int place = 0; place < 3; ++place) {
    SCOPED_TRACE(place);
    EXPECT_TRUE(order.Ordered(f.Instance(0, 0, 0), f.Instance(1, 0, place), false));
    for (int reader = 0; reader < 3; ++reader) {
      EXPECT_EQ(order.Ordered(f.Instance(1, 0, place), f.Instance(2 + reader, 0, 0), false),
                place <= reader)
          << reader;
    }
  }
}

TEST(HappensBeforeTest, PathsOutsideListsNeedTheExactSearch) {
  const Fixture f(R"(
    actor a on d0.comm; x = f()
    actor b on d1.comm; y = g(x)
    actor c on d2.comm; z = g(y))");
  const HappensBefore order(f.index, f.rank);
  EXPECT_FALSE(order.Ordered(f.Instance(0, 0, 0), f.Instance(2, 0, 0), false));
  EXPECT_TRUE(order.OrderedExactly(f.Instance(0, 0, 0), f.Instance(2, 0, 0), false));
  EXPECT_FALSE(order.OrderedExactly(f.Instance(2, 0, 0), f.Instance(0, 0, 0), false));
}

TEST(HappensBeforeTest, AnActorsOwnInstructionsAreOrderedWithoutAList) {
  const Fixture f(R"(
    actor a on d0.comm x 2
      x = f()
      y = g())");
  const HappensBefore order(f.index, f.rank);
  EXPECT_TRUE(order.Ordered(f.Instance(0, 0, 0), f.Instance(0, 0, 1), false));
  EXPECT_TRUE(order.Ordered(f.Instance(0, 0, 1), f.Instance(0, 1, 0), false));
  EXPECT_FALSE(order.Ordered(f.Instance(0, 0, 1), f.Instance(0, 0, 0), false));
  EXPECT_FALSE(order.OrderedExactly(f.Instance(0, 1, 0), f.Instance(0, 0, 1), false));
  EXPECT_TRUE(order.Ordered(f.Instance(0, 1, 1), f.Instance(0, 0, 0), true));
}

TEST(HappensBeforeTest, AMemberOfACollectiveEndsAfterAllHaveBegun) {
  const Fixture f(R"(
    actor p on d0.compute; x = f()
    actor a on d0.comm; s = sum(x) collective 1
    actor b on d1.comm; t = sum() collective 1
    actor q on d1.compute; h(t))");
  const HappensBefore order(f.index, f.rank);
  EXPECT_TRUE(order.OrderedExactly(f.Instance(0, 0, 0), f.Instance(3, 0, 0), false));
  EXPECT_FALSE(order.OrderedExactly(f.Instance(0, 0, 0), f.Instance(2, 0, 0), false));
  EXPECT_FALSE(order.OrderedExactly(f.Instance(1, 0, 0), f.Instance(3, 0, 0), false));
}

}  // namespace
}  // namespace sluice
