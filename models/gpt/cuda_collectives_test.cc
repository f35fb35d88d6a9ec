// Collectives of NCCL in the plan of a model: where they are, that a plan which orders them
// otherwise on two devices does not start, and that a member that fails ends the step of all. That
// models train with them is in cuda_test.
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "framework/base/status.h"
#include "framework/kernels/cuda/collectives.h"
#include "framework/kernels/cuda/support.h"
#include "framework/testing/cuda_order.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/gpt/parity.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

ParityCase TwoCards(const CollectiveSupport* collectives) {
  GptLayout layout;
  layout.mesh = "data=2";
  ParityCase of = GptParity(layout);
  of.mesh += " @cuda";
  of.cuda = &CudaSupport();
  of.collectives = collectives;
  return of;
}

int CountCollectives(const plan::Plan& plan) {
  int count = 0;
  for (const plan::Actor& actor : plan.programs(0).actors()) {
    for (const plan::Instruction& x : actor.script()) {
      count += x.kind() == plan::INSTRUCTION_COLLECTIVE ? 1 : 0;
    }
  }
  return count;
}

TEST(CudaCollectivesTest, GradientsAreReducedByThem) {
  const auto plan = CompileParityPlan(TwoCards(&NcclSupport()), AdamWWithClip());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_GT(CountCollectives(*plan), 0);
  EXPECT_EQ(CountCollectives(*plan) % 2, 0);
  const auto reproducible = CompileParityPlan(TwoCards(nullptr), AdamWWithClip());
  ASSERT_TRUE(reproducible.ok()) << reproducible.status();
  EXPECT_EQ(CountCollectives(*reproducible), 0);
}

// Which stream of a device is of collectives.
plan::Stream* CollectivesOf(int device, plan::Program* program) {
  for (plan::Stream& stream : *program->mutable_streams()) {
    if (stream.kind() == plan::STREAM_COLLECTIVE && stream.device() == device) return &stream;
  }
  return nullptr;
}

TEST(CudaCollectivesTest, APlanOfTwoOrdersIsRefused) {
  BeginCudaOrder(/*seed=*/1, /*checks=*/false);
  const auto swap = [](plan::Plan* plan) {
    plan::Stream* const stream = CollectivesOf(1, plan->mutable_programs(0));
    if (stream == nullptr || stream->order_size() < 2) return absl::InternalError("none to swap");
    stream->mutable_order()->SwapElements(0, stream->order_size() - 1);
    return absl::OkStatus();
  };
  const auto run = ParityRun::Start(TwoCards(&NcclSupport()), AdamWWithClip(), swap);
  ASSERT_FALSE(run.ok());
  EXPECT_THAT(std::string(run.status().message()), HasSubstr("collective"));
  EXPECT_THAT(TakeCudaErrors(), IsEmpty());
}

TEST(CudaCollectivesTest, APlanWhoseMembersHaveOtherCountsIsRefused) {
  BeginCudaOrder(/*seed=*/1, /*checks=*/false);
  const auto shrink = [](plan::Plan* plan) {
    for (plan::Actor& actor : *plan->mutable_programs(0)->mutable_actors()) {
      plan::Instruction& x = *actor.mutable_script(0);
      if (x.op() != "all_reduce" || x.inputs(0).shard().local_size() == 0) continue;
      for (plan::Operand* operand : {x.mutable_inputs(0), x.mutable_outputs(0)}) {
        operand->mutable_shard()->set_local(0, operand->shard().local(0) - 1);
      }
      return absl::OkStatus();
    }
    return absl::InternalError("no all_reduce");
  };
  const auto run = ParityRun::Start(TwoCards(&NcclSupport()), AdamWWithClip(), shrink);
  ASSERT_FALSE(run.ok());
  EXPECT_THAT(std::string(run.status().message()), HasSubstr("expected all_reduce of parts of"));
  EXPECT_THAT(TakeCudaErrors(), IsEmpty());
}

TEST(CudaCollectivesTest, APlanWithoutAnyoneToDoThemIsRefused) {
  BeginCudaOrder(/*seed=*/1, /*checks=*/false);
  auto plan = CompileParityPlan(TwoCards(&NcclSupport()), AdamWWithClip());
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto run =
      ParityRun::Start(TwoCards(nullptr), AdamWWithClip(), *std::move(plan), RuntimeOptions());
  EXPECT_THAT(std::string(run.status().message()), HasSubstr("--reproducible makes copies"));
}

// Collectives that have been launched on device 0.
std::atomic<int>& Launched() {
  static std::atomic<int> launched{0};
  return launched;
}

class Counted final : public Kernel {
 public:
  explicit Counted(std::unique_ptr<Kernel> kernel) : kernel_(std::move(kernel)) {}
  absl::Status Launch(const KernelContext& context, std::byte* const* operands,
                      std::byte* scratch) override {
    const absl::Status status = kernel_->Launch(context, operands, scratch);
    ++Launched();
    return status;
  }

 private:
  const std::unique_ptr<Kernel> kernel_;
};

using Clock = std::chrono::steady_clock;

// When the member failed.
std::atomic<Clock::time_point>& Failed() {
  static std::atomic<Clock::time_point> failed;
  return failed;
}

// Fails once the other device waits for it.
class Failing final : public Kernel {
  absl::Status Launch(const KernelContext&, std::byte* const*, std::byte*) override {
    while (Launched() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    Failed() = Clock::now();
    return absl::InternalError("this card has had enough");
  }
};

absl::StatusOr<std::unique_ptr<Kernel>> FailsOnOne(const KernelSpec& spec,
                                                   Communicators* communicators,
                                                   absl::Span<const int32_t> group,
                                                   int32_t device) {
  if (device == 1) return absl::StatusOr<std::unique_ptr<Kernel>>(std::make_unique<Failing>());
  ASSIGN_OR_RETURN(auto kernel, NcclSupport().prepare(spec, communicators, group, device));
  return absl::StatusOr<std::unique_ptr<Kernel>>(std::make_unique<Counted>(std::move(kernel)));
}

TEST(CudaCollectivesTest, AMemberThatFailsEndsTheStepOfAll) {
  BeginCudaOrder(/*seed=*/1, /*checks=*/false);
  const CollectiveSupport failing = {NcclSupport().make, FailsOnOne};
  auto run = ParityRun::Start(TwoCards(&failing), AdamWWithClip());
  ASSERT_TRUE(run.ok()) << run.status();
  const absl::Status status = (*run)->Step(0).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("this card has had enough"));
  run->reset();
  // What was under way is of emulated kernels; the step ends, and with it whoever waits.
  ASSERT_NE(Failed().load(), Clock::time_point());
  EXPECT_LT(Clock::now() - Failed().load(), std::chrono::seconds(5));
  EXPECT_THAT(TakeCudaErrors(), IsEmpty());
}

}  // namespace
}  // namespace sluice
