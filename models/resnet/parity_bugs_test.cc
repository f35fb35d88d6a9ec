// Bugs of batch norm and momentum over several devices: each planted one must fail the checks.
#include <string>

#include "absl/strings/match.h"
#include "framework/attributes/attributes.h"
#include "framework/testing/expect_parity.h"
#include "framework/testing/planted_bugs.h"
#include "gtest/gtest.h"
#include "models/resnet/parity.h"

namespace sluice {
namespace {

constexpr char kNorm[] = "stage2_0/1/norm";

// What the lockstep says of a layout whose plan was changed.
absl::Status Lockstep(const ResNetLayout& layout, const PlanMutation& mutate,
                      const TrainingSetting& setting = SgdWithMomentum()) {
  return LockstepOf(SharedReference(setting, ResNetParity({.mesh = "data=1"})),
                    ResNetParity(layout), mutate);
}

void ExpectFound(const ResNetLayout& layout, const PlanMutation& mutate) {
  const absl::Status found = Lockstep(layout, mutate);
  EXPECT_TRUE(absl::IsDataLoss(found)) << found;
}

TEST(ParityBugsTest, NothingPlanted) {
  const absl::Status found =
      Lockstep({.mesh = "data=2"}, [](plan::Plan*) { return absl::OkStatus(); });
  EXPECT_TRUE(found.ok()) << found;
}

// Each device takes the statistics of what it has of the group.
TEST(ParityBugsTest, AGroupThatIsCut) {
  const std::string norm = kNorm;
  ExpectFound({.mesh = "data=2"},
              [&](plan::Plan* plan) { return DropReduction(norm + "/reduce", plan); });
  ExpectFound({.mesh = "data=2"},
              [&](plan::Plan* plan) { return DropReduction(norm + "/batch_variance", plan); });
}

TEST(ParityBugsTest, AGradientThroughTheStatisticsOfOneDeviceAlone) {
  ExpectFound({.mesh = "data=2"}, [](plan::Plan* plan) {
    return DropReduction(std::string(kNorm) + "/batch_norm/backward:0", plan);
  });
}

// Twice by 0.1 is once by 0.19.
TEST(ParityBugsTest, RunningStatisticsTakenTwice) {
  for (const char* which : {"running_mean", "running_variance"}) {
    ExpectFound({.mesh = "data=2"}, [&](plan::Plan* plan) {
      return ChangeInstructions(which, plan, [&](int32_t, plan::Instruction* instruction) {
        if (instruction->op() != "moving_average" ||
            !absl::StrContains(instruction->scope(), which)) {
          return false;
        }
        instruction->set_attributes(PrintAttributes(AverageAttributes{0.19}));
        return true;
      });
    });
  }
}

// What makes the variance unbiased is a factor of n / (n - 1).
TEST(ParityBugsTest, ABiasedRunningVariance) {
  ExpectFound({.mesh = "data=2"}, [](plan::Plan* plan) {
    return ChangeInstructions("scale", plan, [](int32_t, plan::Instruction* instruction) {
      if (instruction->op() != "scale" || !absl::StrContains(instruction->scope(), "/norm/scale")) {
        return false;
      }
      instruction->set_attributes(PrintAttributes(ScaleAttributes{1}));
      return true;
    });
  });
}

TEST(ParityBugsTest, MomentumBeforeTheReduction) {
  ExpectFound({.mesh = "data=2"}, [](plan::Plan* plan) {
    return DropReduction("stage2_0/1/conv/backward/conv2d_weight_gradient", plan);
  });
}

// The length of a device's own classes' weights, where the layer's is asked for.
TEST(ParityBugsTest, ARatioOfAShardsOwnLength) {
  const absl::Status found = Lockstep(
      {.mesh = "model=2"},
      [](plan::Plan* plan) { return DropReduction("classes/weight/sum_squares_2", plan); },
      LarsWithClip());
  EXPECT_TRUE(absl::IsDataLoss(found)) << found;
}

TEST(ParityBugsTest, PartsOfSplitChannelsThatAreNotAdded) {
  ExpectFound({.mesh = "model=2", .split_stages = 4},
              [](plan::Plan* plan) { return DropReduction("stage3_1/2/norm", plan); });
}

}  // namespace
}  // namespace sluice
