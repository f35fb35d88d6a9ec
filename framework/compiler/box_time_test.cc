#include "framework/compiler/box_time.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace sluice {
namespace {

Task TaskOf(plan::InstructionKind kind, int64_t bytes) {
  Task task;
  task.kind = kind;
  task.bytes = bytes;
  return task;
}

TEST(BoxTimeTest, AMeasuredKindOfTaskTakesWhatWasMeasured) {
  Machine machine = Machine::Cpu();
  machine.launch_nanoseconds = 10;
  machine.kernels = {{"accumulate", 1, false, {{100, 200}}, {1000, 3000}},
                     {"accumulate", 1, true, {{100, 200}}, {1500, 3700}}};
  Task task = TaskOf(plan::INSTRUCTION_ACCUMULATE, 150);
  SetOwnTime(machine, 4, &task);
  EXPECT_EQ(task.nanoseconds, 10 + 2000);
  EXPECT_EQ(task.cold_nanoseconds, 2600 - 2000);
}

TEST(BoxTimeTest, WhatWasNotMeasuredTakesTheTimeOfItsBytes) {
  Machine machine = Machine::Cpu();
  machine.launch_nanoseconds = 10;
  machine.memory_bytes_per_second = 1e9;
  Task task = TaskOf(plan::INSTRUCTION_ACCUMULATE, 150);
  SetOwnTime(machine, 4, &task);
  EXPECT_EQ(task.nanoseconds, 10 + 150);
  EXPECT_EQ(task.cold_nanoseconds, 0);
}

}  // namespace
}  // namespace sluice
