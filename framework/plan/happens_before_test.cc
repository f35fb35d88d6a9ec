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

// A part that has the clocks of some lists alone never says yes where all clocks together say no,
// and each yes of theirs is a yes of some part.
TEST(HappensBeforeTest, PartsTogetherKnowWhatTheWholeKnows) {
  const Fixture f(R"(
    actor a on d0.compute x 2
      x = f()
      y = f()
    actor b on d1.compute x 2; z = g(x)
    actor c on d2.compute x 2; w = h(y, z)
    actor d on d3.comm x 2; v = k(w)
    actor e on d4.comm x 2; m(v)
    actor n on d0.compute x 2; o(w)
    order d0.compute (a 0 0 2) (a 1 0 2) (n 0 0 1) (n 1 0 1)
    order d1.compute (b 0 0 1) (b 1 0 1)
    order d2.compute (c 0 0 1) (c 1 0 1)
    reg x quota 2
    reg y quota 2
    reg z quota 2
    reg w quota 2)");
  const HappensBefore whole(f.index, f.rank);
  const int32_t listed = HappensBefore::NumListed(f.index), all = f.index.num_instances();
  ASSERT_EQ(listed, 3);
  EXPECT_EQ(HappensBefore::StreamsIn(1, f.index), 1);
  EXPECT_EQ(HappensBefore::StreamsIn(16 * all * 2, f.index), 2);
  int yes = 0;
  for (int32_t first = 0; first < all; ++first) {
    for (int32_t second = 0; second < all; ++second) {
      for (const bool wraps : {false, true}) {
        bool any = false;
        for (int32_t s = 0; s < listed; ++s) {
          any |= HappensBefore(f.index, f.rank, s, s + 1).Ordered(first, second, wraps);
        }
        EXPECT_EQ(any, whole.Ordered(first, second, wraps)) << first << " " << second << wraps;
        yes += any ? 1 : 0;
      }
    }
  }
  EXPECT_GT(yes, all);
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
