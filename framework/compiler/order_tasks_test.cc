#include "framework/compiler/order_tasks.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// Orders are read from graphs of a few tasks on one device, each called by a letter.
class OrderTasksTest : public testing::Test {
 protected:
  // Of so many elements; a variable, until a task makes it.
  ValueId Value(int64_t elements, bool variable = false) {
    sluice::Value value;
    value.shard = Shard::Whole(DType::kF32, Shape{elements});
    value.root = static_cast<ValueId>(tasks_.values.size());
    if (variable) value.variable = "variable";
    tasks_.values.push_back(std::move(value));
    return tasks_.values.back().root;
  }

  Task* Add(const char* name, Phase phase, std::vector<TaskInput> inputs,
            std::vector<ValueId> outputs) {
    Task task;
    task.scope = name;
    task.phase = phase;
    task.inputs = std::move(inputs);
    task.outputs = std::move(outputs);
    const TaskId id = static_cast<TaskId>(tasks_.tasks.size());
    for (const ValueId output : task.outputs) tasks_.values[output].producer = id;
    tasks_.tasks.push_back(std::move(task));
    return &tasks_.tasks.back();
  }

  // Backward makes a, then b, then c; each reads the one before and is as large. A and B are
  // gradients of v and w.
  void AddBackward() {
    Add("F", Phase::kForward, {}, {x_});
    Add("A", Phase::kBackward, {{x_}}, {a_});
    Add("B", Phase::kBackward, {{a_}}, {b_});
    Add("C", Phase::kBackward, {{b_}}, {c_});
  }

  std::string Ordered(const char* mesh = "data=1") {
    OrderTasks(*Mesh::Parse(mesh), &tasks_);
    const absl::Status valid = VerifyTaskGraph(tasks_);
    EXPECT_TRUE(valid.ok()) << valid;
    return absl::StrJoin(tasks_.tasks, " ", [](std::string* out, const Task& task) {
      absl::StrAppend(out, task.scope, task.script == Phase::kBackward ? "'" : "");
    });
  }

  TaskGraph tasks_;
  static constexpr int64_t kMany = 1 << 20;
  const ValueId v_ = Value(8, true), w_ = Value(8, true);
  const ValueId x_ = Value(kMany), a_ = Value(kMany), b_ = Value(8), c_ = Value(8),
                rate_ = Value(1);
};

TEST_F(OrderTasksTest, AnUpdateRunsBehindItsGradient) {
  AddBackward();
  Add("V", Phase::kUpdate, {{a_}, {v_, true}}, {});
  Add("W", Phase::kUpdate, {{b_}, {w_, true}}, {});
  EXPECT_EQ(Ordered(), "F A V' B W' C");
}

TEST_F(OrderTasksTest, TheLastUpdatesStayInTheirScript) {
  AddBackward();
  Add("V", Phase::kUpdate, {{c_}, {v_, true}}, {});
  EXPECT_EQ(Ordered(), "F A B C V");
}

TEST_F(OrderTasksTest, AnUpdateWaitsForWhoReadsItsVariable) {
  AddBackward();
  tasks_.tasks[2].inputs.push_back({v_});  // B
  Add("V", Phase::kUpdate, {{a_}, {v_, true}}, {});
  EXPECT_EQ(Ordered(), "F A B V' C");
}

TEST_F(OrderTasksTest, WhatReadsTheNewValueStaysBehindTheUpdate) {
  AddBackward();
  const ValueId length = Value(1);
  Add("V", Phase::kUpdate, {{b_}, {v_, true}}, {});
  Add("L", Phase::kUpdate, {{v_}, {a_}}, {length});
  EXPECT_EQ(Ordered(), "F A B V' C L");
}

TEST_F(OrderTasksTest, ARateComesWithTheUpdateThatReadsIt) {
  AddBackward();
  const ValueId twice = Value(1), other = Value(1);
  Add("R", Phase::kUpdate, {}, {rate_})->kind = plan::INSTRUCTION_FEED;
  tasks_.tasks.back().stream = plan::STREAM_HOST;
  Add("T", Phase::kUpdate, {{rate_}}, {twice});
  Add("O", Phase::kUpdate, {}, {other});
  Add("V", Phase::kUpdate, {{b_}, {twice}, {v_, true}}, {});
  EXPECT_EQ(Ordered(), "F A R T' B V' C O");
}

TEST_F(OrderTasksTest, TheSumOfSquaresKeepsNoGradient) {
  AddBackward();
  const ValueId square = Value(1), square_b = Value(1);
  Add("S", Phase::kUpdate, {{a_}}, {square});
  Add("T", Phase::kUpdate, {{b_}}, {square_b});
  Add("V", Phase::kUpdate, {{a_}, {v_, true}}, {});
  EXPECT_EQ(Ordered(), "F A S' V' B C T");
}

TEST_F(OrderTasksTest, ClippedUpdatesWaitForTheNorm) {
  AddBackward();
  const ValueId square_a = Value(1), square_c = Value(1), factor = Value(1);
  Add("S", Phase::kUpdate, {{a_}}, {square_a});
  Add("T", Phase::kUpdate, {{c_}}, {square_c});
  Add("N", Phase::kUpdate, {{square_a}, {square_c}}, {factor});
  Add("V", Phase::kUpdate, {{a_}, {factor}, {v_, true}}, {});
  EXPECT_EQ(Ordered(), "F A B C S T N V");
}

TEST_F(OrderTasksTest, WhatComesOverAnotherStreamIsNotWaitedFor) {
  AddBackward();
  const ValueId sum = Value(8);
  Add("R", Phase::kBackward, {{a_}}, {sum})->stream = plan::STREAM_COMM;
  Add("V", Phase::kUpdate, {{sum}, {v_, true}}, {});
  EXPECT_EQ(Ordered(), "F A B C R V");
}

TEST_F(OrderTasksTest, UpdatesComeOnceAfterAllMicroBatches) {
  AddBackward();
  for (Task& task : tasks_.tasks) task.firings = 2;
  for (sluice::Value& value : tasks_.values) value.tokens = value.variable.empty() ? 2 : 1;
  const ValueId sum = Value(8);
  Add("G", Phase::kBackward, {{a_}}, {sum})->firings = 2;
  tasks_.tasks.back().every = 2;
  tasks_.values[sum].round = 1;
  Add("V", Phase::kUpdate, {{sum}, {v_, true}}, {})->round = 1;
  EXPECT_EQ(Ordered(), "F A B C G V");
}

TEST_F(OrderTasksTest, CudaDevicesKeepTheirOrder) {
  AddBackward();
  Add("V", Phase::kUpdate, {{a_}, {v_, true}}, {});
  EXPECT_EQ(Ordered("data=1 @cuda"), "F A B C V");
}

// Of a table that is tied: the part of the head comes first, is large, and waits for the rows.
TEST_F(OrderTasksTest, WhatIsLargerThanItsOperandsIsMadeWhenItIsRead) {
  const ValueId table = Value(5 * kMany / 2), sum = Value(5 * kMany / 2);
  Add("F", Phase::kForward, {}, {x_});
  Add("A", Phase::kBackward, {{x_}}, {a_});
  Add("H", Phase::kBackward, {{a_}, {x_}}, {table});
  Add("B", Phase::kBackward, {{a_}}, {b_});
  Add("C", Phase::kBackward, {{b_}}, {c_});
  Add("D", Phase::kBackward, {{c_}, {table}}, {sum});
  EXPECT_EQ(Ordered(), "F A B C H D");
}

TEST_F(OrderTasksTest, WhatIsSmallerThanItsOperandsIsMadeAtOnce) {
  const ValueId table = Value(2 * kMany), sum = Value(2 * kMany);
  Add("F", Phase::kForward, {}, {x_});
  Add("A", Phase::kBackward, {{x_}}, {a_});
  Add("H", Phase::kBackward, {{a_}, {x_}}, {table});
  Add("B", Phase::kBackward, {{a_}}, {b_});
  Add("C", Phase::kBackward, {{b_}}, {c_});
  Add("D", Phase::kBackward, {{c_}, {table}}, {sum});
  EXPECT_EQ(Ordered(), "F A H B C D");
}

TEST_F(OrderTasksTest, NothingIsMadeBehindTheUpdateOfWhatItReads) {
  const ValueId table = Value(5 * kMany / 2), sum = Value(5 * kMany / 2);
  Add("F", Phase::kForward, {}, {x_});
  Add("A", Phase::kBackward, {{x_}}, {a_});
  Add("H", Phase::kBackward, {{v_}}, {table});
  Add("B", Phase::kBackward, {{a_}}, {b_});
  Add("C", Phase::kBackward, {{b_}}, {c_});
  Add("D", Phase::kBackward, {{c_}, {table}}, {sum});
  Add("V", Phase::kUpdate, {{a_}, {v_, true}}, {});
  EXPECT_EQ(Ordered(), "F A H V' B C D");
}

}  // namespace
}  // namespace sluice
