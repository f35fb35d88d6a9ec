// Bugs of split classes, margins and norms over several devices: each planted one must fail the
// checks.
#include <functional>
#include <string>
#include <variant>

#include "framework/attributes/attributes.h"
#include "framework/testing/expect_parity.h"
#include "framework/testing/planted_bugs.h"
#include "gtest/gtest.h"
#include "models/insightface/parity.h"

namespace sluice {
namespace {

// What the lockstep says of a layout whose plan was changed.
absl::Status Lockstep(const FaceLayout& layout, const PlanMutation& mutate,
                      const FaceLayout& one = {.mesh = "data=1"}) {
  return LockstepOf(SharedReference(SgdWithMomentum(), FaceParity(one)), FaceParity(layout),
                    mutate);
}

void ExpectFound(const FaceLayout& layout, const PlanMutation& mutate) {
  const absl::Status found = Lockstep(layout, mutate);
  EXPECT_TRUE(absl::IsDataLoss(found)) << found;
}

TEST(ParityBugsTest, NothingPlanted) {
  for (const char* mesh : {"data=2", "model=2"}) {
    const absl::Status found =
        Lockstep({.mesh = mesh}, [](plan::Plan*) { return absl::OkStatus(); });
    EXPECT_TRUE(found.ok()) << found;
  }
}

// Every device takes its classes for the first ones, as `op` goes.
absl::Status TakeClassesForTheFirst(const std::string& op, plan::Plan* plan) {
  return ChangeInstructions(op, plan, [&op](int32_t, plan::Instruction* instruction) {
    if (instruction->op() != op) return false;
    bool changed = false;
    for (auto* operands : {instruction->mutable_inputs(), instruction->mutable_outputs()}) {
      for (plan::Operand& operand : *operands) {
        plan::Shard* shard = operand.mutable_shard();
        if (shard->offset_size() < 2 || shard->offset(1) == 0) continue;
        shard->set_offset(1, 0);
        changed = true;
      }
    }
    return changed;
  });
}

TEST(ParityBugsTest, AMarginOnTheWrongClassOfAShard) {
  ExpectFound({.mesh = "model=2"},
              [](plan::Plan* plan) { return TakeClassesForTheFirst("margin_logits", plan); });
}

TEST(ParityBugsTest, AMarginsGradientOnTheWrongClassOfAShard) {
  ExpectFound({.mesh = "model=2"}, [](plan::Plan* plan) {
    return TakeClassesForTheFirst("margin_logits_gradient", plan);
  });
}

// What a gradient comes to that passes the margin as if it were not there.
TEST(ParityBugsTest, AMarginThatTheGradientForgets) {
  ExpectFound({.mesh = "model=2"}, [](plan::Plan* plan) {
    return ChangeInstructions("margin", plan, [](int32_t, plan::Instruction* instruction) {
      if (instruction->op() != "margin_logits_gradient") return false;
      instruction->set_attributes(PrintAttributes(MarginAttributes{.scale = 8}));
      return true;
    });
  });
}

constexpr double kRate = 0.4;

void ExpectFoundOfSample(const char* mesh,
                         const std::function<bool(int32_t, plan::Instruction*)>& change) {
  const FaceLayout layout = {.mesh = mesh, .sample_rate = kRate, .sample_groups = 4};
  const absl::Status found = Lockstep(
      layout, [&](plan::Plan* plan) { return ChangeInstructions("sample_classes", plan, change); },
      {.mesh = "data=1", .sample_rate = kRate, .sample_groups = 4});
  EXPECT_TRUE(absl::IsDataLoss(found)) << found;
}

// A device draws other classes than the one device of the reference does.
TEST(ParityBugsTest, ASampleThatDependsOnTheDevice) {
  for (const char* mesh : {"data=2", "model=2"}) {
    ExpectFoundOfSample(mesh, [](int32_t device, plan::Instruction* instruction) {
      SampleAttributes sample = {.groups = 4, .classes = 100, .count = 40};
      if (instruction->op() != "sample_classes" || device != 1) return false;
      Attributes attributes = sample;
      if (!ParseAttributesInto(instruction->attributes(), &attributes).ok()) return false;
      std::get<SampleAttributes>(attributes).key ^= 1;
      instruction->set_attributes(PrintAttributes(attributes));
      return true;
    });
  }
}

// A device takes its groups for the first ones: classes that labels name in its own are left out,
// and others stand in their places.
TEST(ParityBugsTest, ALabelsClassLeftOut) {
  ExpectFoundOfSample("model=2", [](int32_t, plan::Instruction* instruction) {
    if (instruction->op() != "sample_classes") return false;
    plan::Shard* classes = instruction->mutable_outputs(0)->mutable_shard();
    if (classes->offset(0) == 0) return false;
    classes->set_offset(0, 0);
    return true;
  });
}

// The softmax of a device's own classes.
TEST(ParityBugsTest, ASoftmaxOverAShardOfTheClasses) {
  ExpectFound({.mesh = "model=2"}, [](plan::Plan* plan) {
    return DropReduction("loss/cross_entropy/ce_sum_exp", plan);
  });
}

// What the classes of other devices say of an embedding.
TEST(ParityBugsTest, AnEmbeddingsGradientByItsOwnClassesAlone) {
  ExpectFound({.mesh = "model=2"},
              [](plan::Plan* plan) { return DropReduction("classes/matmul/backward", plan); });
}

TEST(ParityBugsTest, AClassMatrixThatLearnsFromItsOwnPicturesAlone) {
  ExpectFound({.mesh = "data=2"}, [](plan::Plan* plan) {
    return DropReduction("classes/matmul/backward/matmul_weight_gradient", plan);
  });
}

}  // namespace
}  // namespace sluice
