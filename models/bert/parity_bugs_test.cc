// Bugs of an encoder over several devices: each planted one must fail the checks.
#include <string>

#include "framework/attributes/attributes.h"
#include "framework/testing/expect_parity.h"
#include "framework/testing/planted_bugs.h"
#include "gtest/gtest.h"
#include "models/bert/parity.h"

namespace sluice {
namespace {

// What the lockstep says of a layout whose plan was changed.
absl::Status Lockstep(const BertLayout& layout, const PlanMutation& mutate,
                      const TrainingSetting& setting = AdamWWithClip()) {
  return LockstepOf(SharedReference(setting, BertParity({.mesh = "data=1"})), BertParity(layout),
                    mutate);
}

void ExpectFound(const BertLayout& layout, const PlanMutation& mutate) {
  const absl::Status found = Lockstep(layout, mutate);
  EXPECT_TRUE(absl::IsDataLoss(found)) << found;
}

TEST(ParityBugsTest, NothingPlanted) {
  const absl::Status found =
      Lockstep({.mesh = "data=2"}, [](plan::Plan*) { return absl::OkStatus(); });
  EXPECT_TRUE(found.ok()) << found;
}

// Heads of the other device, words of the other half of the vocabulary, samples of the other half
// of the batch: each is a sum that is left out.
TEST(ParityBugsTest, HeadsThatAreNotAdded) {
  ExpectFound({.mesh = "model=2"},
              [](plan::Plan* plan) { return DropReduction("h1/attn/out", plan); });
}

TEST(ParityBugsTest, AVocabularyOfOneDevice) {
  for (const char* which : {"masked/ce_max", "masked/ce_sum_exp", "masked/ce_pick"}) {
    ExpectFound({.mesh = "model=2"}, [&](plan::Plan* plan) { return DropReduction(which, plan); });
  }
}

TEST(ParityBugsTest, AGradientOfOneDevicesSamples) {
  ExpectFound({.mesh = "data=2"}, [](plan::Plan* plan) {
    return DropReduction("h1/mlp/up/backward/matmul_weight_gradient", plan);
  });
}

// Causal, as GPT's: the words to the right are not seen.
TEST(ParityBugsTest, AnAttentionThatLooksOneWay) {
  ExpectFound({.mesh = "data=2"}, [](plan::Plan* plan) {
    return ChangeInstructions("attention", plan, [](int32_t, plan::Instruction* instruction) {
      if (instruction->op() != "padded_attention") return false;
      instruction->set_op("attention");
      instruction->mutable_inputs()->RemoveLast();
      return true;
    });
  });
}

// The length of a device's own part of a direction, where the whole layer's is asked for.
TEST(ParityBugsTest, ATrustRatioOfAShardsOwnLength) {
  const absl::Status found = Lockstep(
      {.mesh = "model=2"},
      [](plan::Plan* plan) { return DropReduction("h1/mlp/up/weight/sum_squares_2", plan); },
      LambWithClip());
  EXPECT_TRUE(absl::IsDataLoss(found)) << found;
}

// A mean over the masked words of one sample, where it is that over those of the whole batch.
TEST(ParityBugsTest, AMeanOverTheWordsOfOneSample) {
  ExpectFound({.mesh = "data=2"}, [](plan::Plan* plan) {
    return ChangeInstructions("masked/loss", plan, [](int32_t, plan::Instruction* instruction) {
      if (instruction->scope() != "masked/loss/reduce") return false;
      instruction->set_attributes(PrintAttributes(ReduceAttributes{Reduction::kMax, false, {0}}));
      return true;
    });
  });
}

}  // namespace
}  // namespace sluice
