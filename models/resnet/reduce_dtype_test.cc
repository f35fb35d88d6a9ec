// Gradients that are reduced over devices in bf16: half the bytes, and the losses that f32 gives
// but for what rounding does.
#include <cmath>
#include <cstdint>

#include "framework/plan/program_index.h"
#include "framework/plan/statistics.h"
#include "framework/testing/training_parity.h"
#include "gtest/gtest.h"
#include "models/resnet/parity.h"

namespace sluice {
namespace {

TrainingSetting ReducedIn(DType dtype) {
  TrainingSetting setting = SgdWithMomentum();
  setting.optimizer.reduce = dtype;
  return setting;
}

// Gradients alone: a norm of its own range of the batch says nothing to other devices.
const ResNetLayout kLayout = {.mesh = "data=2", .groups = 2};

int64_t WireBytes(const ResNetLayout& layout, DType dtype) {
  const auto plan = CompileParityPlan(ResNetParity(layout), ReducedIn(dtype));
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return 0;
  const auto index = ProgramIndex::Build(plan->programs(0));
  EXPECT_TRUE(index.ok()) << index.status();
  return index.ok() ? CountProgram(*index).wire_bytes : 0;
}

TEST(ReduceDtypeTest, HalfTheBytesCrossDevices) {
  const double f32 = static_cast<double>(WireBytes(kLayout, DType::kF32));
  const double bf16 = static_cast<double>(WireBytes(kLayout, DType::kBF16));
  EXPECT_GT(f32, 100000);
  // A loss and a norm are all that stays as it is.
  EXPECT_NEAR(bf16, f32 / 2, f32 / 100);
}

// On replicas, and where gradients are reduced into parts.
TEST(ReduceDtypeTest, LossesAreThoseOfF32) {
  for (const int zero : {0, 1, 2, 3}) {
    ResNetLayout layout = kLayout;
    layout.zero = zero;
    const auto expected = ParityRun::Start(ResNetParity(kLayout), ReducedIn(DType::kF32));
    const auto got = ParityRun::Start(ResNetParity(layout), ReducedIn(DType::kBF16));
    ASSERT_TRUE(expected.ok() && got.ok()) << expected.status() << got.status();
    for (int64_t step = 0; step < 20; ++step) {
      const auto f32 = (*expected)->Step(step), bf16 = (*got)->Step(step);
      ASSERT_TRUE(f32.ok() && bf16.ok()) << f32.status() << bf16.status();
      EXPECT_NEAR(bf16->loss, f32->loss, 5e-3 * f32->loss) << "zero " << zero << " step " << step;
      if (step == 3) {
        EXPECT_NE(bf16->loss, f32->loss) << "it did not round";
      }
      // Later on the runs are two, as any two are that round otherwise.
      if (step > 10) continue;
      EXPECT_NEAR(bf16->grad_norm, f32->grad_norm, 2e-2 * f32->grad_norm) << step;
    }
    const absl::Status replicas = (*got)->session()->CheckReplicas();
    EXPECT_TRUE(replicas.ok()) << replicas;
  }
}

}  // namespace
}  // namespace sluice
