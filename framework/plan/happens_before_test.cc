#include "framework/plan/happens_before.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
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
  HappensBefore order(f.index, f.rank);
  EXPECT_TRUE(order.Ordered(f.Instance(0, 0, 0), f.Instance(2, 0, 0), false));
  EXPECT_TRUE(order.Ordered(f.Instance(0, 0, 0), f.Instance(1, 0, 0), false));
  EXPECT_FALSE(order.Ordered(f.Instance(0, 0, 1), f.Instance(1, 0, 0), false));
  EXPECT_FALSE(order.Ordered(f.Instance(1, 0, 0), f.Instance(0, 0, 1), false));
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
  HappensBefore order(f.index, f.rank);
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

// What ended before each instance of two steps began, by following every wait to its end.
std::vector<std::vector<bool>> Closure(const ProgramIndex& index, absl::Span<const int32_t> rank) {
  const int32_t n = index.num_instances();
  std::vector<int32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return rank[a] < rank[b]; });
  std::vector<std::vector<bool>> ended(2 * n, std::vector<bool>(2 * n, false));
  for (int step = 0; step < 2; ++step) {
    for (int32_t instance : order) {
      const ProgramIndex::Instance e = index.InstanceAt(instance);
      const int firings = index.actor(e.actor).firings;
      std::vector<bool>& of = ended[step * n + instance];
      index.ForEachWait(e.actor, e.firing + step * firings, e.instruction,
                        [&](const ProgramIndex::Wait& wait) {
                          const int others = index.actor(wait.actor).firings;
                          const int32_t before =
                              static_cast<int32_t>(wait.firing / others) * n +
                              index.InstanceOf(wait.actor, wait.firing % others, wait.instruction);
                          of[before] = true;
                          for (int32_t x = 0; x < 2 * n; ++x) of[x] = of[x] || ended[before][x];
                        });
    }
  }
  return ended;
}

// Lists, scripts and readers are short cuts: they find what all waits come to and nothing else. A
// search that is cut short says no where it does not know.
TEST(HappensBeforeTest, EqualsAllWaitsFollowedToTheirEnds) {
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
  const std::vector<std::vector<bool>> ended = Closure(f.index, f.rank);
  HappensBefore order(f.index, f.rank);
  const int32_t all = f.index.num_instances();
  int yes = 0, yes_if_short = 0;
  for (int32_t first = 0; first < all; ++first) {
    for (int32_t second = 0; second < all; ++second) {
      for (const bool wraps : {false, true}) {
        SCOPED_TRACE(absl::StrCat(first, " ", second, wraps ? " of the next step" : ""));
        const bool truth = ended[second + (wraps ? all : 0)][first];
        EXPECT_EQ(order.Ordered(first, second, wraps), truth);
        const bool if_short = order.Ordered(first, second, wraps, 2);
        EXPECT_LE(if_short, truth);
        yes += truth ? 1 : 0;
        yes_if_short += if_short ? 1 : 0;
      }
    }
  }
  EXPECT_GT(yes, all);
  EXPECT_GT(yes_if_short, yes / 2);
  EXPECT_LT(yes_if_short, yes);
}

TEST(HappensBeforeTest, PathsOutsideListsAreFollowed) {
  const Fixture f(R"(
    actor a on d0.comm; x = f()
    actor b on d1.comm; y = g(x)
    actor c on d2.comm; z = g(y))");
  HappensBefore order(f.index, f.rank);
  EXPECT_TRUE(order.Ordered(f.Instance(0, 0, 0), f.Instance(2, 0, 0), false));
  EXPECT_FALSE(order.Ordered(f.Instance(0, 0, 0), f.Instance(2, 0, 0), false, 1));
  EXPECT_FALSE(order.Ordered(f.Instance(2, 0, 0), f.Instance(0, 0, 0), false));
}

TEST(HappensBeforeTest, AnActorsOwnInstructionsAreOrderedWithoutAList) {
  const Fixture f(R"(
    actor a on d0.comm x 2
      x = f()
      y = g())");
  HappensBefore order(f.index, f.rank);
  EXPECT_TRUE(order.Ordered(f.Instance(0, 0, 0), f.Instance(0, 0, 1), false));
  EXPECT_TRUE(order.Ordered(f.Instance(0, 0, 1), f.Instance(0, 1, 0), false));
  EXPECT_FALSE(order.Ordered(f.Instance(0, 0, 1), f.Instance(0, 0, 0), false));
  EXPECT_FALSE(order.Ordered(f.Instance(0, 1, 0), f.Instance(0, 0, 1), false));
  EXPECT_TRUE(order.Ordered(f.Instance(0, 1, 1), f.Instance(0, 0, 0), true));
}

TEST(HappensBeforeTest, AMemberOfACollectiveEndsAfterAllHaveBegun) {
  const Fixture f(R"(
    actor p on d0.compute; x = f()
    actor a on d0.comm; s = sum(x) collective 1
    actor b on d1.comm; t = sum() collective 1
    actor q on d1.compute; h(t))");
  HappensBefore order(f.index, f.rank);
  EXPECT_TRUE(order.Ordered(f.Instance(0, 0, 0), f.Instance(3, 0, 0), false));
  EXPECT_FALSE(order.Ordered(f.Instance(0, 0, 0), f.Instance(2, 0, 0), false));
  EXPECT_FALSE(order.Ordered(f.Instance(1, 0, 0), f.Instance(3, 0, 0), false));
  // A member may begin, and so rank, before what its peers wait for.
  const std::vector<int32_t> early = {1, 2, 0, 3};
  HappensBefore of_early(f.index, early);
  EXPECT_TRUE(of_early.Ordered(f.Instance(0, 0, 0), f.Instance(3, 0, 0), false));
}

}  // namespace
}  // namespace sluice
