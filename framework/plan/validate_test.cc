#include "framework/plan/validate.h"

#include <string>

#include "framework/plan/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using testing::HasSubstr;

std::string Error(const std::string& text) {
  const absl::StatusOr<plan::Plan> plan = ParsePlan(text);
  EXPECT_TRUE(plan.ok()) << plan.status();
  const auto index = ProgramIndex::Build(plan->programs(0));
  EXPECT_TRUE(index.ok()) << index.status();
  return std::string(ValidateProgram(*index).message());
}

TEST(ValidateTest, AcceptsWhatIsWhole) {
  EXPECT_EQ(Error(R"(
    actor feed on d0.host x 4; x = feed(1)
    actor model on d0.compute x 4; G += mul(x, w)
    actor update on d0.compute; w -= copy(G)
    reg w tokens 1; reg G every 4
    order d0.compute (model 0 0 1) (model 1 0 1) (model 2 0 1) (model 3 0 1) (update 0 0 1))"),
            "");
}

TEST(ValidateTest, RatesOfProducersAndReadersAgree) {
  EXPECT_THAT(Error("actor a on d0.c x 3\n x = f()\nreg x every 2"),
              HasSubstr("register \"x\": emitted every 2 firings of actor \"a\", which fires 3"));
  EXPECT_THAT(Error("actor a on d0.c x 2\n x = f()\nactor b on d0.c x 3\n f(x)"),
              HasSubstr("2 tokens a step cannot serve the 3 firings of actor \"b\""));
  EXPECT_THAT(Error("actor a on d0.c x 4\n x = f()\nactor b on d0.c x 2\n f(x)"),
              HasSubstr("4 tokens a step cannot serve the 2 firings"));
}

TEST(ValidateTest, TokensFitTheirSlots) {
  EXPECT_THAT(Error("actor a on d0.c\n x = f()\nreg x tokens 2"),
              HasSubstr("2 initial tokens in 1 slots"));
  EXPECT_THAT(Error("actor a on d0.c\n x += f()\nreg x tokens 1 quota 2"),
              HasSubstr("updated in place needs one slot, has 2"));
}

TEST(ValidateTest, NoInstructionReadsWhatItUpdates) {
  EXPECT_THAT(Error("actor a on d0.c\n w += f(w)\nreg w tokens 1"),
              HasSubstr("both reads and writes register \"w\""));
  EXPECT_THAT(Error("actor a on d0.c\n x = f(x)"), HasSubstr("mark the operand as an update"));
  EXPECT_THAT(Error("actor a on d0.c\n f(w)\n w += f()\n g(w)\nreg w tokens 1"),
              HasSubstr("reads register \"w\" both before and after it updates it"));
  EXPECT_EQ(Error("actor a on d0.c\n x = f()\n x + 64 = g(x)\nactor b on d0.c\n f(x)"), "");
}

TEST(ValidateTest, RingsAreWhole) {
  EXPECT_THAT(Error("actor a on d0.c x 2\n x = f()\nring q slots 1 registers x"),
              HasSubstr("takes 1 slots a round, emits 2 tokens"));
  EXPECT_THAT(Error("actor a on d0.c\n x = f()\nreg x tokens 1\nring q slots 1 registers x"),
              HasSubstr("has a token at the start"));
  EXPECT_THAT(Error("actor a on d0.c\n f(x)\nreg x\nring q slots 1 registers x"),
              HasSubstr("is the session's"));
  EXPECT_THAT(
      Error("actor a on d0.c\n x = f()\nactor b on d1.c\n y = f()\nring q slots 1 registers x y"),
      HasSubstr("lies on device 1, others on 0"));
}

TEST(ValidateTest, OrdersHaveEachInstanceOnce) {
  const std::string actors = "actor a on d0.c x 2\n f()\n g()\n";
  EXPECT_THAT(Error(actors + "order d0.c (a 0 0 2)"), HasSubstr("micro-batch 1 0 times"));
  EXPECT_THAT(Error(actors + "order d0.c (a 0 0 2) (a 1 0 2) (a 0 1 2)"), HasSubstr("2 times"));
}

TEST(ValidateTest, CollectivesAreOrderedAndOnePerDevice) {
  EXPECT_THAT(Error("actor a on d0.c\n f() collective 1"), HasSubstr("which has no order"));
  EXPECT_THAT(Error("actor a on d0.c\n f() collective 1\n f() collective 1\norder d0.c (a 0 0 2)"),
              HasSubstr("device 0 has two members"));
  EXPECT_THAT(Error("actor a on d0.c x 2\n f() collective 1\nactor b on d1.c\n f() collective 1\n"
                    "order d0.c (a 0 0 1) (a 1 0 1)\norder d1.c (b 0 0 1)"),
              HasSubstr("actor \"b\" fires 1 times a step, actor \"a\" 2"));
  EXPECT_THAT(Error("actor a on d0.c\n f() collective 1\nactor b on d0.e\n f() collective 2\n"
                    "order d0.c (a 0 0 1)\norder d0.e (b 0 0 1)"),
              HasSubstr("device 0 has collectives in two orders"));
}

TEST(ValidateTest, TemporariesBelongToOneActor) {
  EXPECT_THAT(Error("actor a on d0.c\n %x = f()\nactor b on d0.c\n g(%x)"),
              HasSubstr("uses temporary 0, which is actor 0's"));
}

TEST(ValidateTest, PlansNameTheirVariablesAndDevices) {
  const auto error = [](const std::string& text) {
    const absl::StatusOr<plan::Plan> plan = ParsePlan(text);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return std::string(ValidatePlan(*plan).message());
  };
  EXPECT_THAT(error("reg w variable weight\nactor a on d0.c\n f(w)"),
              HasSubstr("is variable \"weight\", which the plan lacks"));
  EXPECT_THAT(error("plan\ndevice 0 0\nactor a on d1.c\n f()"), HasSubstr("on device 1 of 1"));
  EXPECT_THAT(error("plan\nvariable w f32 [2]\nshard 0"), HasSubstr("on device 0 of 0"));
  EXPECT_THAT(error("plan\ndevice 0 0\nactor a on d0.c\n x = f()\nreg x device 3"),
              HasSubstr("lies on device 3 of 1"));
}

}  // namespace
}  // namespace sluice
