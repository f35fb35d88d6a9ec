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
    machine.devices_per_host = 2;
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
    ASSERT_EQ(tasks.boxings.size(), 1u);
    const int64_t far = tasks.boxings[0].between_hosts;
    EXPECT_EQ(far, axis == 1 ? tasks.boxings[0].bytes / 2 : 0);
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
  const auto alone = [&](LinkKind kind, int64_t moved) {
    return machine().launch_nanoseconds + machine().link(kind).latency_nanoseconds * 3 / 2 +
           machine().LinkNanoseconds(moved, kind);
  };
  EXPECT_EQ(prices[1], alone(LinkKind::kProcess, bytes));
  EXPECT_EQ(prices[0], alone(LinkKind::kNetwork, bytes / 2) + alone(LinkKind::kProcess, bytes / 2));
}

// Rows that are split over micro-batches and over `data`: to have them in the batch's order each
// micro-batch is gathered; packed by position they stay where they are.
TEST(OnePriceOverTimeTest, CountsWhatIsGatheredInOrderToBePacked) {
  const Grid grid(*Mesh::Parse("data=2 model=2"), 2);
  Machine machine;
  BoxingPlanner planner(machine);
  Graph graph;
  const Tensor rows = Scale(graph.Input("x", DType::kF32, {8, 512, 64}, "data:S0"), 2);
  graph.Output("z", ReduceSum(rows, {0}));
  ASSERT_EQ(graph.Finish(), absl::OkStatus());
  const NodeId maker = graph.tensor(rows.id()).producer, reader = graph.nodes().back().id;
  const std::string name = graph.node(maker).name;
  GridSbp from = grid.Broadcast(), sum = from, in_order = from;
  from.time = from[1] = in_order[1] = Sbp::S(0), sum[1] = Sbp::P();
  GridSbp packed = in_order;
  packed.packed = Sbp::S(0);
  const SelectionCost cost(grid, &planner, machine);
  int64_t prices[2], wire[2];
  for (const bool by_position : {false, true}) {
    const GridSbp& to = by_position ? packed : in_order;
    SbpAssignment assignment;
    assignment.choices.resize(graph.nodes().size());
    assignment.produced.resize(graph.num_tensors(), grid.Broadcast());
    const auto choose = [&](NodeId node, const GridSbp& input, const GridSbp& output) {
      assignment.choices[node].inputs = {input}, assignment.choices[node].outputs = {output};
      assignment.produced[graph.node(node).outputs[0]] = output;
    };
    choose(maker, from, from);
    choose(reader, to, sum);
    assignment.consumed = assignment.produced;
    const auto tasks = Lower(graph, grid, assignment, &planner, machine);
    ASSERT_TRUE(tasks.ok()) << tasks.status();
    const int64_t price = cost.Boxing(graph.tensor(rows.id()).type, from, 0, to, 0);
    wire[by_position] = 0;
    for (int device = 0; device < 4; ++device) {
      int64_t lowered = 0;
      for (const Task& task : tasks->tasks) {
        if (task.boxing < 0 || task.device != device) continue;
        if (tasks->boxings[task.boxing].tensor != name) continue;
        lowered += task.firings * task.nanoseconds;
        wire[by_position] += task.firings * task.wire_bytes;
      }
      EXPECT_EQ(lowered, price) << "device " << device << (by_position ? " by position" : "");
    }
    prices[by_position] = price;
  }
  const int64_t bytes = 4 * 8 * 512 * 64;
  EXPECT_EQ(wire[0], 4 * bytes / 2);  // half of all comes to each device
  EXPECT_EQ(wire[1], 0);
  EXPECT_EQ(prices[1], 2 * machine.ComputeNanoseconds(0, 2 * bytes / 4, false));
  EXPECT_GT(prices[0], 2 * prices[1]);
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
