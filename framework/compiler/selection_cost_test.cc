// One price: what selection counts for a boxing is what lowering writes on its tasks, and so what
// the clock and the simulator go by.
#include "framework/compiler/selection_cost.h"

#include <string>
#include <utility>

#include "framework/base/log.h"
#include "framework/compiler/lower.h"
#include "framework/compiler/schedule.h"
#include "framework/compiler/select_sbp.h"
#include "framework/ops/ops.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// A sum over rows, and a reader of it; on a mesh whose axis `data` crosses two nodes of two devices
// and whose axis `model` stays inside.
class OnePrice : public testing::Test {
 protected:
  OnePrice() : grid(*Mesh::Parse("data=2 model=2"), 1), planner(machine()) {
    Tensor sum = ReduceSum(graph.Input("x", DType::kF32, {8, 512, 64}, ""), {0});
    graph.Output("z", Scale(sum, 1));
    SLUICE_CHECK_OK(graph.Finish());
    tensor = sum.id();
  }

  static Machine machine() {
    Machine machine;
    machine.devices_per_node = 2;
    return machine;
  }

  Choice Plain(const GridSbp& input, const GridSbp& output) const {
    Choice choice;
    choice.inputs = {input}, choice.outputs = {output};
    for (size_t a = 0; a < input.size(); ++a) {
      choice.signatures.push_back({"", {input[a]}, {output[a]}});
    }
    return choice;
  }

  // The sum comes in `from` and is read in `to`.
  absl::StatusOr<TaskGraph> Tasks(const GridSbp& rows, const GridSbp& from, const GridSbp& to) {
    SbpAssignment assignment;
    assignment.choices.resize(graph.nodes().size());
    assignment.produced.resize(graph.num_tensors(), grid.Broadcast());
    const NodeId reader = graph.nodes().back().id;
    assignment.choices[graph.tensor(tensor).producer] = Plain(rows, from);
    assignment.choices[reader] = Plain(to, to);
    assignment.produced[tensor] = from;
    assignment.produced[graph.node(reader).outputs[0]] = to;
    assignment.consumed = assignment.produced;
    return Lower(graph, grid, assignment, &planner, machine());
  }

  Graph graph;
  const Grid grid;
  BoxingPlanner planner;
  TensorId tensor = -1;
};

TEST_F(OnePrice, OfSelectionLoweringAndClockIsThatOfTheLinkThatIsCrossed) {
  const SelectionCost cost(grid, &planner, machine());
  const GridSbp whole = grid.Broadcast();
  int64_t prices[2];
  for (int axis : {1, 2}) {  // 0 is time
    GridSbp rows = whole, partial = whole;
    rows[axis] = Sbp::S(0), partial[axis] = Sbp::P();
    const int64_t price = cost.Boxing(graph.tensor(tensor).type, partial, 0, whole, 0);
    const auto lowering = Tasks(rows, partial, whole);
    ASSERT_TRUE(lowering.ok()) << lowering.status();
    const TaskGraph& tasks = *lowering;
    for (int device = 0; device < 4; ++device) {
      int64_t lowered = 0;
      for (const Task& task : tasks.tasks) {
        if (task.boxing == 0 && task.device == device) lowered += task.firings * task.nanoseconds;
      }
      EXPECT_EQ(lowered, price) << "device " << device << ", axis " << grid.axes()[axis].name;
    }
    int64_t clocked = 0;
    const plan::Program program = BuildSchedule("p", tasks, grid, {})->program;
    for (const plan::Actor& actor : program.actors()) {
      for (const plan::Instruction& instruction : actor.script()) {
        if (instruction.kind() == plan::INSTRUCTION_FOLD) clocked += instruction.nanoseconds();
      }
    }
    EXPECT_EQ(clocked, 4 * price);
    prices[axis - 1] = price;
  }
  // Inside a node the whole tensor comes in, in one message. Between nodes each half of the
  // replicas takes a half, which costs nothing to slice, and hands it on inside.
  const int64_t bytes = 4 * 512 * 64;
  const int64_t start = machine().launch_nanoseconds + machine().latency_nanoseconds * 3 / 2;
  EXPECT_EQ(prices[1], start + machine().LinkNanoseconds(bytes, false));
  EXPECT_EQ(prices[0], 2 * start + machine().LinkNanoseconds(bytes / 2, true) +
                           machine().LinkNanoseconds(bytes / 2, false));
}

// Selection refuses what no boxing does; an assignment that came otherwise must not get through.
TEST_F(OnePrice, LoweringNamesTheTensorThatNoBoxingBrings) {
  GridSbp rows = grid.Broadcast(), sum = rows, largest = rows;
  rows[1] = Sbp::S(0), sum[1] = Sbp::P(), largest[1] = Sbp::P(Reduction::kMax);
  const SelectionCost cost(grid, &planner, machine());
  EXPECT_EQ(cost.Boxing(graph.tensor(tensor).type, sum, 0, largest, 0), -1);
  const absl::Status status = Tasks(rows, sum, largest).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(testing::HasSubstr("expected one kind of P"),
                             testing::HasSubstr(graph.node(graph.tensor(tensor).producer).name)));
}

}  // namespace
}  // namespace sluice
