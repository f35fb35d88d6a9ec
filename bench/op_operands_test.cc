#include "bench/op_operands.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

// Where scratch lies tells no instructions apart; how much of it there is decides how a kernel goes
// (KernelSpec::most_scratch): without, cuDNN would make nothing of what it makes in a step.
TEST(OpOperandsTest, InstructionsKeepTheBoundOfTheirScratch) {
  plan::Program program;
  plan::Actor* const actor = program.add_actors();
  actor->set_firings_per_step(2);
  for (const int64_t offset : {0, 512}) {
    plan::Instruction* const planned = actor->add_script();
    planned->set_op("attention");
    planned->set_scratch(256);
    planned->set_scratch_offset(offset);
  }
  const std::vector<DistinctInstruction> distinct = DistinctInstructions(program);
  ASSERT_EQ(distinct.size(), 1u);
  EXPECT_EQ(distinct[0].count, 4);
  EXPECT_EQ(distinct[0].instruction.scratch(), 256);
}

}  // namespace
}  // namespace sluice
