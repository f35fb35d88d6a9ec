#include "framework/runtime/stretches.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "framework/plan/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// "model 0: [1, 3) x 2": actor, micro-batch, instructions, variants.
std::vector<std::string> StretchesOf(const std::string& text, int stream = 0) {
  const absl::StatusOr<plan::Plan> plan = ParsePlan(text);
  EXPECT_EQ(plan.status(), absl::OkStatus());
  const auto index = ProgramIndex::Build(plan->programs(0));
  EXPECT_EQ(index.status(), absl::OkStatus());
  std::vector<std::string> found;
  for (const Stretch& s : FindStretches(*index, stream)) {
    found.push_back(absl::StrCat(index->program().actors(s.actor).name(), " ", s.micro, ": [",
                                 s.first, ", ", s.end, ") x ", s.variants));
  }
  return found;
}

TEST(StretchesTest, AnEntryThatDealsWithNobodyIsOne) {
  EXPECT_THAT(StretchesOf("actor m on d0.compute; a = f(); b = f(a); g(b)\n"
                          "order d0.compute (m 0 0 3)"),
              ElementsAre("m 0: [0, 3) x 1"));
  EXPECT_THAT(StretchesOf("actor m on d0.compute; a = f(); b = f(a); g(b)"), IsEmpty())
      << "without an order";
  EXPECT_THAT(StretchesOf("actor m on d0.compute; a = f(); g(a)\n"
                          "order d0.compute (m 0 0 1) (m 0 1 2)"),
              IsEmpty())
      << "entries of one instruction";
}

TEST(StretchesTest, ATokenOfAnotherStreamIsWaitedForAtTheBeginning) {
  EXPECT_THAT(StretchesOf("actor m on d0.compute; a = f(); b = f(a); c = f(b, x); g(c)\n"
                          "actor feed on d0.copy; x = f()\n"
                          "order d0.compute (m 0 0 4)\norder d0.copy (feed 0 0 1)"),
              ElementsAre("m 0: [0, 2) x 1", "m 0: [2, 4) x 1"));
}

TEST(StretchesTest, ATokenForAnotherStreamIsGivenAtTheEnd) {
  EXPECT_THAT(StretchesOf("actor m on d0.compute; a = f(); b = f(a); x = f(b); c = f(a); g(c)\n"
                          "actor log on d0.copy; g(x)\n"
                          "order d0.compute (m 0 0 5)\norder d0.copy (log 0 0 1)"),
              ElementsAre("m 0: [0, 2) x 1", "m 0: [3, 5) x 1"))
      << "the write of x waits for a slot, and is alone";
  EXPECT_THAT(StretchesOf("actor m on d0.compute x 2; a = f(); b = f(a); x += f(b); g(a)\n"
                          "actor log on d0.copy; g(x)\n"
                          "order d0.compute (m 0 0 4) (m 1 0 4)\norder d0.copy (log 0 0 1)\n"
                          "reg x every 2"),
              ElementsAre("m 0: [0, 2) x 1", "m 0: [2, 4) x 1", "m 1: [0, 3) x 1"))
      << "of an accumulator the first firing waits for the slot, and the last gives the token";
}

TEST(StretchesTest, AnAckForAnotherStreamCutsNothing) {
  EXPECT_THAT(StretchesOf("actor m on d0.compute; a = f(x); b = f(a); c = f(b); g(c)\n"
                          "actor feed on d0.copy; x = f()\n"
                          "order d0.compute (m 0 0 4)\norder d0.copy (feed 0 0 1)"),
              ElementsAre("m 0: [0, 4) x 1"));
}

TEST(StretchesTest, AReuseEdgeFromAnotherStreamIsWaitedForAtTheBeginning) {
  const std::string plan =
      "actor m on d0.compute; a = f(); b = f(a); c = f(b); g(c)\n"
      "actor copy on d0.copy; x = f(); g(x)\n"
      "order d0.compute (m 0 0 4)\norder d0.copy (copy 0 0 2)\n";
  EXPECT_THAT(StretchesOf(plan + "reuse copy 0 1 -> m 0 2"),
              ElementsAre("m 0: [0, 2) x 1", "m 0: [2, 4) x 1"));
  EXPECT_THAT(StretchesOf(plan + "reuse m 0 1 -> copy 0 0 wraps"), ElementsAre("m 0: [0, 4) x 1"));
}

TEST(StretchesTest, SlotsThatATokenTakesInTurnMakeVariants) {
  const std::string plan =
      "actor m on d0.compute x 2; a = f(x); b = f(a); g(b)\n"
      "actor feed on d0.copy x 2; x = f()\n"
      "order d0.compute (m 0 0 3) (m 1 0 3)\norder d0.copy (feed 0 0 1) (feed 1 0 1)\n";
  EXPECT_THAT(StretchesOf(plan + "reg x quota 2"),
              ElementsAre("m 0: [0, 3) x 1", "m 1: [0, 3) x 1"))
      << "each firing has a slot of its own";
  EXPECT_THAT(StretchesOf(plan + "reg x quota 3"),
              ElementsAre("m 0: [0, 3) x 3", "m 1: [0, 3) x 3"));
  EXPECT_THAT(StretchesOf(plan + "reg x quota 4"),
              ElementsAre("m 0: [0, 3) x 2", "m 1: [0, 3) x 2"));
  EXPECT_THAT(StretchesOf(plan + "reg x quota 9"),
              ElementsAre("m 0: [1, 3) x 1", "m 1: [1, 3) x 1"))
      << "too many: the reader is alone";
}

TEST(StretchesTest, WhatRunsNoKernelIsAlone) {
  EXPECT_THAT(StretchesOf("actor m on d0.compute; a = f(); a2 = f(a)\n f() collective 1\n"
                          " b = f(a2); g(b)\n"
                          "order d0.compute (m 0 0 5)"),
              ElementsAre("m 0: [0, 2) x 1", "m 0: [3, 5) x 1"));
}

}  // namespace
}  // namespace sluice
