#include "framework/runtime/wait_watch.h"

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/data/dataset.h"
#include "framework/runtime/runtime.h"
#include "framework/runtime/test_plan.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr milliseconds kLimit(150), kLong(600), kDrags(15);

// Takes long at every step from 3 on, or where it drags some milliseconds at every step.
class SlowKernel final : public Kernel {
 public:
  SlowKernel(std::unique_ptr<Kernel> kernel, bool drags)
      : kernel_(std::move(kernel)), drags_(drags) {}
  absl::Status Launch(const KernelContext& context, std::byte* const* operands,
                      std::byte* scratch) override {
    if (drags_ || context.step >= 3) std::this_thread::sleep_for(drags_ ? kDrags : kLong);
    return kernel_->Launch(context, operands, scratch);
  }

 private:
  const std::unique_ptr<Kernel> kernel_;
  const bool drags_;
};

absl::StatusOr<std::unique_ptr<Kernel>> PrepareSlowKernel(const KernelSpec& spec) {
  auto kernel = PrepareTestKernel(spec);
  const bool drags = absl::StrContains(spec.scope, "drags");
  if (!kernel.ok() || (!drags && !absl::StrContains(spec.scope, "slow"))) return kernel;
  return absl::StatusOr<std::unique_ptr<Kernel>>(
      std::make_unique<SlowKernel>(*std::move(kernel), drags));
}

std::unique_ptr<Runtime> StartWatched(plan::Plan plan, milliseconds limit) {
  RuntimeOptions options;
  options.workers = 2;
  options.prepare = PrepareSlowKernel;
  options.wait_limit = limit;
  auto runtime = Runtime::Start(std::move(plan), options);
  EXPECT_EQ(runtime.status(), absl::OkStatus());
  return *std::move(runtime);
}

plan::Plan PlanWithASlowUpdate(const char* scope = "h0/slow") {
  plan::Plan plan = TestPlan(2);
  for (plan::Actor& actor : *plan.mutable_programs(0)->mutable_actors()) {
    if (actor.name() == "update1") actor.mutable_script(0)->set_scope(scope);
  }
  return plan;
}

// What is logged by that many steps, two of them ahead.
std::string LogOfSteps(Runtime* runtime, int64_t steps) {
  testing::internal::CaptureStderr();
  const HostTensor x = TestFeed(2, 0);
  for (int64_t step = 0; step < steps; ++step) {
    EXPECT_EQ(runtime->Enqueue(0, {Feed(&x)}, step), absl::OkStatus());
    if (step == 0) continue;
    EXPECT_EQ(runtime->Next().status(), absl::OkStatus());
  }
  EXPECT_EQ(runtime->Next().status(), absl::OkStatus());
  std::this_thread::sleep_for(milliseconds(100));  // the end is seen a little later
  return testing::internal::GetCapturedStderr();
}

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// The first such step is told, with its end; the next ones take as long as is known by then.
TEST(WaitWatchTest, AKernelThatTakesLongIsNamedOnce) {
  const auto runtime = StartWatched(PlanWithASlowUpdate(), kLimit);
  const std::string log = LogOfSteps(runtime.get(), 6);
  EXPECT_THAT(log, ContainsRegex("all wait for device 1 compute, which runs h0/slow .grow., step "
                                 "3, micro-batch 0, for [0-9.]+ s"));
  EXPECT_THAT(log, AllOf(ContainsRegex("nothing has moved for [0-9.]+ s"),
                         HasSubstr("device 1 compute runs h0/slow (grow), step 3"),
                         HasSubstr("device 0 comm: test/reduce0 (sum), step 4, micro-batch 0, "
                                   "waits for sums1 of forward1")));
  EXPECT_EQ(Count(log, "all wait for"), 1) << log;
  EXPECT_EQ(Count(log, "goes on after"), 1) << log;
}

TEST(WaitWatchTest, ADeviceThatMakesTheOthersWaitIsNamedOnce) {
  const auto runtime = StartWatched(PlanWithASlowUpdate("h0/drags"), milliseconds(600));
  const std::string log = LogOfSteps(runtime.get(), 100);
  EXPECT_THAT(log,
              ContainsRegex(
                  "the others wait for device 1 compute: it computes for [0-9]+ % of the time; "
                  "the one in the middle of all is busy for [0-9]+ %, in steps of 0\\.0[0-9]+ s"));
  EXPECT_EQ(Count(log, "the others wait for"), 1) << log;
}

TEST(WaitWatchTest, DevicesThatTakeAsLongMakeNobodyWait) {
  plan::Plan plan = PlanWithASlowUpdate("h0/drags");
  for (plan::Actor& actor : *plan.mutable_programs(0)->mutable_actors()) {
    if (actor.name() == "update0") actor.mutable_script(0)->set_scope("h0/drags");
  }
  const auto runtime = StartWatched(std::move(plan), milliseconds(600));
  EXPECT_THAT(LogOfSteps(runtime.get(), 50), Not(HasSubstr("the others wait for")));
}

TEST(WaitWatchTest, WhatTakesLessThanTheLimitIsNotTold) {
  const auto runtime = StartWatched(PlanWithASlowUpdate(), milliseconds(5000));
  EXPECT_THAT(LogOfSteps(runtime.get(), 5), Not(HasSubstr("nothing has moved")));
}

TEST(WaitWatchTest, ASessionThatAsksForNothingIsNotWaitedFor) {
  const auto runtime = StartWatched(TestPlan(2), kLimit);
  testing::internal::CaptureStderr();
  const HostTensor x = TestFeed(2, 0);
  EXPECT_EQ(runtime->Enqueue(0, {Feed(&x)}, 0), absl::OkStatus());
  EXPECT_EQ(runtime->Next().status(), absl::OkStatus());
  std::this_thread::sleep_for(kLong);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), Not(HasSubstr("nothing has moved")));
}

// Gives nothing for a while, as a pipe may.
class LateData final : public Dataset {
 public:
  int64_t num_samples() const override { return 100; }
  const std::vector<SampleField>& fields() const override { return fields_; }
  DataIdentity identity() const override { return {}; }
  absl::Status Fill(int, absl::Span<const int64_t> samples, int64_t position, const Box&,
                    std::byte* to) const override {
    if (position >= 4) std::this_thread::sleep_for(kLong);
    std::fill(to, to + samples.size() * kTestColumns * sizeof(float), std::byte{0});
    return absl::OkStatus();
  }

 private:
  const std::vector<SampleField> fields_ = {{"x", DType::kF32, Shape{kTestColumns}}};
};

TEST(WaitWatchTest, AnInputThatIsLateIsNamed) {
  const LateData data;
  const auto runtime = StartWatched(TestPlan(2), kLimit);
  testing::internal::CaptureStderr();
  for (int64_t step = 0; step < 2; ++step) {
    const SampleRows rows = {&data, 0, {SampleOrder::kEpochs, 1}, 4 * step};
    ASSERT_EQ(runtime->Enqueue(0, {Feed(rows)}, step), absl::OkStatus());
    ASSERT_EQ(runtime->Next().status(), absl::OkStatus());
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              ContainsRegex("input is late: device [01] host has read test/feed[01] .feed., step "
                            "1, micro-batch 0 for [0-9.]+ s"));
}

}  // namespace
}  // namespace sluice
