// --check_nan on every layout: it lets training pass, and names the first instruction that makes a
// NaN, on whatever device and micro-batch that is.
#include <cmath>
#include <memory>
#include <string>

#include "framework/testing/layouts.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/gpt/parity.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr char kPoisoned[] = "h2/mlp/down/weight";

std::unique_ptr<ParityRun> StartRun(const GptLayout& layout, bool check_nan) {
  RuntimeOptions options;
  options.check_nan = check_nan;
  auto plan = CompileParityPlan(GptParity(layout), AdamWWithClip());
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return nullptr;
  auto run = ParityRun::Start(GptParity(layout), AdamWWithClip(), *std::move(plan), options);
  EXPECT_TRUE(run.ok()) << run.status();
  return run.ok() ? *std::move(run) : nullptr;
}

void Poison(Session* session) {
  auto weight = session->Read(kPoisoned);
  ASSERT_TRUE(weight.ok()) << weight.status();
  weight->data<float>()[weight->shape.NumElements() / 2] = std::nanf("");
  ASSERT_EQ(session->Write(kPoisoned, *weight), absl::OkStatus());
}

class CheckNanTest : public ::testing::TestWithParam<GptLayout> {};

TEST_P(CheckNanTest, TrainingPassesAndAPoisonedWeightIsNamed) {
  const auto run = StartRun(GetParam(), true);
  ASSERT_NE(run, nullptr);
  for (int64_t step = 0; step < 2; ++step) {
    const auto record = run->Step(step);
    ASSERT_TRUE(record.ok()) << record.status();
  }
  Poison(run->session());
  const absl::Status status = run->Step(2).status();
  // Where it is not stored as it is read, what brings it there may come first.
  const std::string gathers = GetParam().zero > 0 ? "weight (fold)" : "(matmul";
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("program train, step 2, device "), HasSubstr(", h2/mlp/down"),
                    AnyOf(HasSubstr("(matmul"), HasSubstr(gathers)), HasSubstr("NaN")));
  EXPECT_EQ(run->session()->status(), status);
}

INSTANTIATE_TEST_SUITE_P(Layouts, CheckNanTest, ::testing::ValuesIn(ParityLayouts()), LayoutName());

TEST(NoCheckNanTest, WithoutItTheLossBecomesNan) {
  const auto run = StartRun({"data=2"}, false);
  ASSERT_NE(run, nullptr);
  Poison(run->session());
  const auto record = run->Step(0);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_TRUE(std::isnan(record->loss));
}

}  // namespace
}  // namespace sluice
