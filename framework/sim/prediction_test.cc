#include "framework/sim/prediction.h"

#include "framework/plan/text.h"
#include "framework/tensor/dtype.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr int64_t kBytes = 1 << 20;

// A register of 1 MiB is written, read, and read again after another of 1 MiB.
plan::Program TwoTensors() {
  plan::Plan plan = *ParsePlan(R"(
    actor a on d0.compute; x = f() cost 10
    actor b on d1.compute
      g(x) cost 10
      y = h() cost 10
      g(x) cost 10)");
  plan::Program program = plan.programs(0);
  const auto grow = [](plan::Operand* operand) {
    operand->mutable_shard()->set_dtype(static_cast<int32_t>(DType::kF32));
    operand->mutable_shard()->clear_local();
    operand->mutable_shard()->add_local(kBytes / 4);
  };
  for (plan::Actor& actor : *program.mutable_actors()) {
    for (plan::Instruction& instruction : *actor.mutable_script()) {
      instruction.set_cold_nanoseconds(100);
      for (plan::Operand& operand : *instruction.mutable_inputs()) grow(&operand);
      for (plan::Operand& operand : *instruction.mutable_outputs()) grow(&operand);
    }
  }
  return program;
}

int64_t Predicted(const plan::Program& program, int64_t cores, int64_t cache_bytes, int steps) {
  Machine machine;
  machine.cores = cores;
  machine.link(LinkKind::kProcess).latency_nanoseconds = 0;
  machine.cache_bytes = cache_bytes;
  const auto run = PredictSteps(program, 2, machine, steps);
  EXPECT_TRUE(run.ok()) << run.status();
  return run.ok() ? run->step_nanoseconds : -1;
}

TEST(PredictionTest, WhatTheCacheHoldsIsFaster) {
  const plan::Program program = TwoTensors();
  // One worker: f and h write what is not there; g finds it, unless h has taken its room.
  EXPECT_EQ(Predicted(program, 1, 4 * kBytes, 1), 110 + 10 + 110 + 10);
  EXPECT_EQ(Predicted(program, 1, kBytes, 1), 110 + 10 + 110 + 110);
  EXPECT_EQ(Predicted(program, 1, 0, 1), 4 * 110);
  // In the steps that follow, a large cache holds all.
  EXPECT_EQ(Predicted(program, 1, 4 * kBytes, 5), 40);
}

TEST(PredictionTest, WhatAnotherWorkerWroteIsNotInTheCache) {
  const plan::Program program = TwoTensors();
  EXPECT_EQ(Predicted(program, 2, 4 * kBytes, 1), 110 + 110 + 110 + 10);
}

TEST(PredictionTest, IsTheSameEveryTime) {
  const plan::Program program = TwoTensors();
  Machine machine;
  machine.cores = 2;
  machine.cache_bytes = kBytes;
  const auto once = PredictSteps(program, 2, machine), again = PredictSteps(program, 2, machine);
  ASSERT_TRUE(once.ok() && again.ok());
  EXPECT_EQ(once->spans, again->spans);
  EXPECT_FALSE(PredictSteps(program, 2, Machine::Cpu()).ok());  // of how many cores?
  EXPECT_FALSE(PredictSteps(program, 0, machine).ok());
}

}  // namespace
}  // namespace sluice
