// Bugs of tables over several devices: each planted one must fail the checks.
#include <string>

#include "absl/strings/match.h"
#include "framework/attributes/attributes.h"
#include "framework/testing/expect_parity.h"
#include "framework/testing/planted_bugs.h"
#include "gtest/gtest.h"
#include "models/wide_and_deep/parity.h"

namespace sluice {
namespace {

// What the lockstep says of a layout whose plan was changed.
absl::Status Lockstep(const ClickLayout& layout, const PlanMutation& mutate) {
  return LockstepOf(SharedReference(AdamWWithClip(), ClickParity({.mesh = "data=1"})),
                    ClickParity(layout), mutate);
}

void ExpectFound(const ClickLayout& layout, const PlanMutation& mutate) {
  const absl::Status found = Lockstep(layout, mutate);
  EXPECT_TRUE(absl::IsDataLoss(found)) << found;
}

TEST(ParityBugsTest, NothingPlanted) {
  for (const char* mesh : {"data=2", "model=2", "table=2"}) {
    const absl::Status found =
        Lockstep({.mesh = mesh}, [](plan::Plan*) { return absl::OkStatus(); });
    EXPECT_TRUE(found.ok()) << found;
  }
}

// Rows of the other device stay zeros: of a table by rows each has a part of what a batch names.
TEST(ParityBugsTest, RowsOfOneDevice) {
  for (const char* which : {"deep/small", "deep/large", "wide/sum"}) {
    ExpectFound({.mesh = "table=2"}, [&](plan::Plan* plan) { return DropReduction(which, plan); });
  }
}

// Clipping by the norm of the rows that one device has.
TEST(ParityBugsTest, ANormOfOneDevicesRows) {
  ExpectFound({.mesh = "model=2"},
              [](plan::Plan* plan) { return DropReduction("clip/sum", plan); });
}

TEST(ParityBugsTest, AGradientOfOneDevicesSamples) {
  for (const char* mesh : {"data=2", "model=2"}) {
    ExpectFound({.mesh = mesh}, [](plan::Plan* plan) {
      return DropReduction("deep/h1/backward/matmul_weight_gradient", plan);
    });
  }
}

// A rule that is not the wide part's, or its rate.
absl::Status ChangeAttributes(const std::string& op, const std::string& attributes,
                              plan::Plan* plan) {
  return ChangeInstructions(op, plan, [&](int32_t device, plan::Instruction* instruction) {
    if (instruction->op() != op || device != 0) return false;
    instruction->set_attributes(attributes);
    return true;
  });
}

TEST(ParityBugsTest, AnFtrlWithoutItsBeta) {
  ExpectFound({.mesh = "model=2"}, [](plan::Plan* plan) {
    return ChangeAttributes("ftrl_sparse", PrintAttributes(FtrlAttributes{1e-3, 1e-2, 0}), plan);
  });
}

TEST(ParityBugsTest, AnFtrlAtTheDeepPartsRate) {
  ExpectFound({.mesh = "data=2"}, [](plan::Plan* plan) {
    return ChangeInstructions("learning_rate", plan, [](int32_t, plan::Instruction* instruction) {
      if (instruction->op() != "scale" ||
          !absl::StartsWith(instruction->scope(), "learning_rate")) {
        return false;
      }
      instruction->set_attributes(PrintAttributes(ScaleAttributes{1}));
      return true;
    });
  });
}

// A row that its owner sends twice.
TEST(ParityBugsTest, RowsThatAreCountedTwice) {
  for (const char* mesh : {"table=2", "data=2 table=2"}) {
    ExpectFound({.mesh = mesh}, [](plan::Plan* plan) { return CountTwice("deep/large", plan); });
  }
}

}  // namespace
}  // namespace sluice
