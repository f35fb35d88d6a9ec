#include "framework/runtime/stretches.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/plan/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// "model 0: [1, 3) x 2 takes 2": actor, micro-batch, instructions, variants, takers.
std::vector<std::string> StretchesOf(const std::string& text, int stream = 0) {
  const absl::StatusOr<plan::Plan> plan = ParsePlan(text);
  EXPECT_EQ(plan.status(), absl::OkStatus());
  const auto index = ProgramIndex::Build(plan->programs(0));
  EXPECT_EQ(index.status(), absl::OkStatus());
  std::vector<std::string> found;
  for (const Stretch& s : FindStretches(*index, stream)) {
    found.push_back(absl::StrCat(index->program().actors(s.actor).name(), " ", s.micro, ": [",
                                 s.first, ", ", s.end, ") x ", s.variants,
                                 s.takers.empty() ? "" : " takes ", absl::StrJoin(s.takers, ",")));
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

TEST(StretchesTest, ATokenForAnotherStreamIsGivenSoon) {
  const auto of = [](const std::string& written, const std::string& behind) {
    return StretchesOf("actor m on d0.compute; a = f(); b = f(a)\n x = f(b) " + written +
                       "\n c = f(a) " + behind +
                       "\n g(c)\n"
                       "actor log on d0.copy; g(x)\n"
                       "order d0.compute (m 0 0 5)\norder d0.copy (log 0 0 1)");
  };
  EXPECT_THAT(of("", ""), ElementsAre("m 0: [0, 5) x 1 takes 2"));
  EXPECT_THAT(of("", "bytes 45000000"), ElementsAre("m 0: [0, 5) x 1 takes 2"));
  for (const std::string behind : {"bytes 45001500", "flops 3000100000"}) {
    EXPECT_THAT(of("", behind), ElementsAre("m 0: [0, 3) x 1 takes 2", "m 0: [3, 5) x 1"));
  }
  EXPECT_THAT(of("bytes 90000000", ""), ElementsAre("m 0: [0, 5) x 1 takes 2"))
      << "what writes it makes it no later";
}

TEST(StretchesTest, TokensAreLateByAllThatIsBehindTheFirst) {
  EXPECT_THAT(StretchesOf("actor m on d0.compute; a = f(); x = f(a)\n b = f(a) bytes 30000000\n"
                          " y = f(b) bytes 15000000\n c = f(b) bytes 1500\n g(c)\n"
                          "actor log on d0.copy; g(x, y)\n"
                          "order d0.compute (m 0 0 6)\norder d0.copy (log 0 0 1)"),
              ElementsAre("m 0: [0, 4) x 1 takes 1,3", "m 0: [4, 6) x 1"));
}

// Of an accumulator the first firing takes the slot, and the last gives the token.
TEST(StretchesTest, ASlotThatAnotherStreamHadInTheStepBeforeIsTaken) {
  EXPECT_THAT(StretchesOf("actor m on d0.compute x 2; a = f(); b = f(a); x += f(b); g(a)\n"
                          "actor log on d0.copy; g(x)\n"
                          "order d0.compute (m 0 0 4) (m 1 0 4)\norder d0.copy (log 0 0 1)\n"
                          "reg x every 2"),
              ElementsAre("m 0: [0, 4) x 1 takes 2", "m 1: [0, 4) x 1"));
}

TEST(StretchesTest, ASlotThatAnotherStreamHasInTheSameStepIsWaitedForAtTheBeginning) {
  EXPECT_THAT(StretchesOf("actor m on d0.compute x 2; a = f(); b = f(a); x = f(b); g(a)\n"
                          "actor log on d0.copy x 2; g(x)\n"
                          "order d0.compute (m 0 0 4) (m 1 0 4)\n"
                          "order d0.copy (log 0 0 1) (log 1 0 1)"),
              ElementsAre("m 0: [0, 4) x 1 takes 2", "m 1: [0, 2) x 1", "m 1: [2, 4) x 1"));
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
  EXPECT_THAT(StretchesOf(plan + "reuse copy 0 1 -> m 0 2 wraps"),
              ElementsAre("m 0: [0, 4) x 1 takes 2"))
      << "of the step before";
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
