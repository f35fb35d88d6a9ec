#include "framework/plan/proof.h"

#include <string>

#include "framework/plan/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using testing::HasSubstr;

plan::Program Parse(const std::string& text) {
  absl::StatusOr<plan::Plan> plan = ParsePlan(text);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan->programs(0);
}

absl::Status Prove(const plan::Program& program, Deadlock* deadlock = nullptr) {
  const auto index = ProgramIndex::Build(program);
  EXPECT_TRUE(index.ok()) << index.status();
  Certificate certificate;
  const absl::Status status = ProveLive(*index, &certificate, deadlock);
  if (status.ok()) {
    EXPECT_EQ(CheckCertificate(*index, certificate), absl::OkStatus());
  }
  return status;
}

const char kLoop[] = R"(
  actor a on d0.compute
    x = mul(y) scope "model/first"
  actor b on d1.compute
    y = mul(x) scope "model/second"
  reg y tokens 1)";

TEST(ProofTest, AnInitialTokenMakesALoopLive) {
  plan::Program program = Parse(kLoop);
  EXPECT_EQ(Prove(program), absl::OkStatus());
  program.mutable_registers(1)->set_initial_tokens(0);  // y
  Deadlock deadlock;
  const absl::Status status = Prove(program, &deadlock);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  const std::string text(status.message());
  EXPECT_THAT(text, HasSubstr("program \"main\" would deadlock, 2 of 2 actors stuck"));
  EXPECT_THAT(text, HasSubstr("actor \"a\", instruction 0 \"mul\" of model/first waits for "
                              "register \"y\" from actor \"b\""));
  EXPECT_THAT(text, HasSubstr("of model/second waits for register \"x\" from actor \"a\""));
  ASSERT_EQ(deadlock.cycle.size(), 2u);
  EXPECT_EQ(deadlock.cycle[0].wait.actor, deadlock.cycle[1].waiting.actor);
  EXPECT_EQ(deadlock.cycle[1].wait.actor, deadlock.cycle[0].waiting.actor);
}

TEST(ProofTest, QuotasThatTheOrderDoesNotFitAreNamed) {
  plan::Program program = Parse(R"(
    actor F on d0.compute x 3; k = feed(1)
    actor B on d0.compute x 3; log(k)
    reg k quota 3
    order d0.compute (F 0 0 1) (F 1 0 1) (F 2 0 1) (B 0 0 1) (B 1 0 1) (B 2 0 1))");
  EXPECT_EQ(Prove(program), absl::OkStatus());
  program.mutable_registers(0)->set_quota(2);
  const std::string text(Prove(program).message());
  EXPECT_THAT(text, HasSubstr("actor \"F\", instruction 0 \"feed\", micro-batch 2 waits for a free "
                              "slot of register \"k\" (it has 2) from actor \"B\""));
  EXPECT_THAT(text, HasSubstr("waits in the order of stream d0.compute for actor \"F\""));
}

TEST(ProofTest, CollectivesFireAsOne) {
  const std::string actors = R"(
    actor a on d0.comm
      s = sum() collective 1
      t = sum() collective 2
    actor b on d1.comm
      u = sum() collective 1
      v = sum() collective 2)";
  EXPECT_EQ(Prove(Parse(actors)), absl::OkStatus());
  const std::string crossed = R"(
    actor a on d0.comm
      s = sum() collective 1
      t = sum() collective 2
    actor b on d1.comm
      u = sum() collective 2
      v = sum() collective 1)";
  EXPECT_THAT(std::string(Prove(Parse(crossed)).message()),
              HasSubstr("waits for its peer in a collective"));
}

TEST(ProofTest, PassesCount) {
  plan::Program program = Parse(R"(
    actor a on d0.compute; x = f()
    actor b on d0.comm; y = g(x)
    reuse a 0 0 -> b 0 0
    reuse b 0 0 -> a 0 0 wraps)");
  EXPECT_EQ(Prove(program), absl::OkStatus());
  program.mutable_reuse_edges(1)->set_wraps(false);
  EXPECT_THAT(std::string(Prove(program).message()), HasSubstr("for bytes to be handed over by"));
}

TEST(ProofTest, WrongRatesAreRefusedFirst) {
  const plan::Program program = Parse("actor a on d0.compute x 3\n x = f()\nreg x every 2");
  EXPECT_EQ(Prove(program).code(), absl::StatusCode::kInvalidArgument);
}

TEST(ProofTest, ACertificateThatLiesIsFound) {
  const plan::Program program = Parse(kLoop);
  const auto index = ProgramIndex::Build(program);
  ASSERT_TRUE(index.ok());
  EXPECT_EQ(CheckCertificate(*index, {{0, 1}}), absl::OkStatus());
  EXPECT_THAT(std::string(CheckCertificate(*index, {{1, 0}}).message()),
              HasSubstr("puts actor \"b\", instruction 0 \"mul\" of model/second too early"));
  EXPECT_FALSE(CheckCertificate(*index, {{0}}).ok());
}

}  // namespace
}  // namespace sluice
