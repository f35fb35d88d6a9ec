// All pairs of layouts, not as a plan of slices but down the whole pipeline: lowered, scheduled,
// ordered, packed, proven and run by actors in a random interleaving.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/compiler/lower.h"
#include "framework/compiler/place.h"
#include "framework/compiler/schedule.h"
#include "framework/compiler/select_sbp.h"
#include "framework/graph/interpreter.h"
#include "framework/ops/ops.h"
#include "framework/tensor/random.h"
#include "framework/testing/plan_executor.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// A graph whose middle tensor comes in layout `from`: where that is P, a reduction over a dimension
// that the axis splits makes it so.
struct Pipeline {
  Graph graph;
  TensorId made = -1;  // comes as `from`
  NodeId reader = -1;  // is made to read it as `to`
};

absl::Status BuildPipeline(const GridSbp& from, const Shape& shape, Pipeline* pipeline) {
  const Reduction kind = from.reduction();
  Shape whole = {int64_t{1}};
  for (size_t a = 1; a < from.size(); ++a) {
    if (from[a].is_partial()) whole[0] = 5;  // uneven shards
  }
  for (int64_t extent : shape) whole.Append(extent);
  Tensor x = pipeline->graph.Input("x", DType::kF64, whole, "");
  Tensor y = kind == Reduction::kMax ? ReduceMax(x, {0}) : ReduceSum(x, {0});
  Tensor z = Scale(y, 1);
  pipeline->graph.Output("z", z);
  pipeline->made = y.id();
  pipeline->reader = pipeline->graph.tensor(z.id()).producer;
  return pipeline->graph.Finish();
}

Choice Plain(const Grid& grid, const GridSbp& input, const GridSbp& output) {
  Choice choice;
  choice.inputs = {input};
  choice.outputs = {output};
  choice.signatures.resize(grid.axes().size());
  for (size_t a = 0; a < grid.axes().size(); ++a) {
    choice.signatures[a] = {"", {input[a]}, {output[a]}};
  }
  return choice;
}

// The input's layout that a reduction over dimension 0 turns into `from`.
GridSbp BeforeReduction(const GridSbp& from) {
  GridSbp sbp = from;
  for (Sbp& s : sbp.space) {
    if (s.is_split()) s.dim = static_cast<int8_t>(s.dim + 1);
    if (s.is_partial()) s = Sbp::S(0);
  }
  return sbp;
}

absl::StatusOr<plan::Plan> PlanPipeline(const Mesh& mesh, const Grid& grid, const GridSbp& from,
                                        const GridSbp& to, const Pipeline& pipeline) {
  const Graph& graph = pipeline.graph;
  SbpAssignment assignment;
  assignment.choices.resize(graph.nodes().size());
  assignment.produced.resize(graph.num_tensors(), grid.Broadcast());
  const NodeId reduction = graph.tensor(pipeline.made).producer;
  assignment.choices[reduction] = Plain(grid, BeforeReduction(from), from);
  assignment.choices[pipeline.reader] = Plain(grid, to, to);
  assignment.produced[pipeline.made] = from;
  assignment.produced[graph.node(pipeline.reader).outputs[0]] = to;
  assignment.consumed = assignment.produced;
  const Machine machine = Machine::Cpu();
  BoxingPlanner planner(machine);
  ASSIGN_OR_RETURN(const TaskGraph tasks, Lower(graph, grid, assignment, &planner, machine));
  plan::Plan plan;
  ASSIGN_OR_RETURN(Ordered ordered, OrderProgram(*BuildSchedule("pipeline", tasks, grid, {})));
  ASSIGN_OR_RETURN(const Placed placed, PlaceProgram(std::move(ordered), PackingOptions()));
  *plan.add_programs() = placed.program;
  for (int64_t d = 0; d < mesh.num_devices(); ++d) {
    plan::Device* device = plan.add_devices();
    device->set_local(mesh.devices()[d].local);
    device->set_memory_bytes(placed.devices[d].packed);
  }
  return plan;
}

std::vector<GridSbp> Layouts(size_t axes, int rank) {
  std::vector<Sbp> symbols = {Sbp::B(), Sbp::P(Reduction::kSum), Sbp::P(Reduction::kMax)};
  for (int d = 0; d < rank; ++d) symbols.push_back(Sbp::S(d));
  std::vector<GridSbp> layouts = {GridSbp{}};
  for (size_t a = 0; a < axes; ++a) {
    std::vector<GridSbp> longer;
    for (const GridSbp& layout : layouts) {
      for (const Sbp& symbol : symbols) {
        GridSbp next = layout;
        next.space.push_back(symbol);
        const Reduction kind = layout.reduction();
        if (symbol.is_partial() && kind != Reduction::kNone && kind != symbol.reduction) continue;
        longer.push_back(next);
      }
    }
    layouts = longer;
  }
  return layouts;
}

// Integers, so that sums are exact in any order.
HostTensor Values(const Shape& shape) {
  Array array(shape);
  for (size_t i = 0; i < array.values.size(); ++i) {
    array.values[i] =
        static_cast<double>(RandomWord(3, 5, 7, static_cast<int64_t>(i)) % 2001) - 1000;
  }
  return FromArray(array, DType::kF64);
}

int RunAllPairs(const std::string& mesh_text, const Shape& shape) {
  const Mesh mesh = *Mesh::Parse(mesh_text);
  const Grid grid(mesh, 1);
  int pairs = 0;
  const std::vector<GridSbp> layouts = Layouts(mesh.axes().size(), shape.rank());
  for (const GridSbp& from : layouts) {
    Pipeline pipeline;
    absl::Status built = BuildPipeline(from, shape, &pipeline);
    EXPECT_TRUE(built.ok()) << built;
    const TensorId input = pipeline.graph.node(pipeline.graph.inputs()[0]).outputs[0];
    const HostTensor x = Values(pipeline.graph.tensor(input).type.shape);
    ArrayMap none;
    const auto expected = Interpret(pipeline.graph, {{"x", ToArray(x)}}, &none, {});
    EXPECT_TRUE(expected.ok()) << expected.status();
    for (const GridSbp& to : layouts) {
      const Reduction a = from.reduction(), b = to.reduction();
      if (a != Reduction::kNone && b != Reduction::kNone && a != b) continue;  // refused
      SCOPED_TRACE(absl::StrCat(mesh_text, " ", shape.ToString(), ": ", grid.ToString(from), " -> ",
                                grid.ToString(to)));
      absl::StatusOr<plan::Plan> plan = PlanPipeline(mesh, grid, from, to, pipeline);
      EXPECT_TRUE(plan.ok()) << plan.status();
      if (!plan.ok()) continue;
      PlanExecutorOptions options;
      options.interleaving = static_cast<uint64_t>(pairs);
      auto executor = PlanExecutor::Create(*std::move(plan), options);
      EXPECT_TRUE(executor.ok()) << executor.status();
      if (!executor.ok()) continue;
      for (int64_t step = 0; step < 2; ++step) {
        const auto result = (*executor)->Step(0, {{"x", x}}, step);
        EXPECT_TRUE(result.ok()) << result.status();
        if (!result.ok()) break;
        EXPECT_EQ(ToArray(result->at("z")).values, expected->at("z").values);
      }
      ++pairs;
    }
  }
  return pairs;
}

TEST(BoxingPipelineTest, AllPairsOnOneAxis) {
  int pairs = RunAllPairs("a=2", {4, 6}) + RunAllPairs("a=3", {4, 6});
  pairs += RunAllPairs("a=4", {5, 1});  // empty shards
  EXPECT_EQ(pairs, 3 * (25 - 2));
}

TEST(BoxingPipelineTest, AllPairsOnTwoAxes) {
  const int pairs = RunAllPairs("a=2 b=2", {5, 3});
  // 9 layouts without P, 7 with P(sum), 7 with P(max); the two kinds do not meet.
  EXPECT_EQ(pairs, 23 * 23 - 2 * 7 * 7);
}

TEST(BoxingPipelineTest, AllPairsOnUnevenAxes) {
  EXPECT_EQ(RunAllPairs("a=2 b=3", {4, 2}), 23 * 23 - 2 * 7 * 7);
}

}  // namespace
}  // namespace sluice
