#include "framework/compiler/schedule.h"

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace sluice {
namespace {

// Quotas are read from task graphs of a few tasks on a pipeline of two stages.
class ScheduleTest : public testing::Test {
 protected:
  void AddValue(const char* name, int32_t stage, TaskId producer) {
    Value value;
    value.name = name;
    value.device = value.stage = stage;
    value.shard = Shard::Whole(DType::kF32, Shape{4});
    value.tokens = kMicroBatches;
    value.producer = producer;
    value.root = static_cast<ValueId>(tasks_.values.size());
    value.leaves_script = true;
    tasks_.values.push_back(value);
  }

  void AddTask(int32_t stage, std::vector<TaskInput> inputs, std::vector<ValueId> outputs) {
    Task task;
    task.device = task.stage = stage;
    task.firings = kMicroBatches;
    task.inputs = std::move(inputs);
    task.outputs = std::move(outputs);
    tasks_.tasks.push_back(std::move(task));
  }

  int32_t QuotaOf(const std::string& name) const {
    const Grid grid(*Mesh::Parse("pipe=2"), kMicroBatches);
    const Schedule schedule = *BuildSchedule("train", tasks_, grid, {});
    for (const plan::Register& reg : schedule.program.registers()) {
      if (reg.name() == name) return reg.quota();
    }
    return -1;
  }

  static constexpr int64_t kMicroBatches = 4;
  TaskGraph tasks_;
};

TEST_F(ScheduleTest, WhatAnotherStageReadsHasTwoSlots) {
  AddValue("x", 0, 0);
  AddTask(0, {}, {0});
  AddTask(1, {{0}}, {});
  EXPECT_EQ(QuotaOf("x"), 2);
}

TEST_F(ScheduleTest, WhatIsMadeFromAnotherStagesBytesHasTwoSlots) {
  AddValue("x", 0, 0);
  AddValue("y", 1, 1);
  AddTask(0, {}, {0});
  AddTask(1, {{0}}, {1});
  AddTask(1, {{1}}, {});
  EXPECT_EQ(QuotaOf("y"), 2);
}

TEST_F(ScheduleTest, WhatStaysOnItsStageHasOneSlot) {
  AddValue("x", 0, 0);
  AddTask(0, {}, {0});
  AddTask(0, {{0}}, {});
  EXPECT_EQ(QuotaOf("x"), 1);
}

}  // namespace
}  // namespace sluice
