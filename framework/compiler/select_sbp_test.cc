#include "framework/compiler/select_sbp.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "framework/base/status.h"
#include "framework/compiler/lower.h"
#include "framework/compiler/selection_state.h"
#include "framework/compiler/task_graph.h"
#include "framework/ops/ops.h"
#include "framework/testing/models.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

struct Selected {
  Graph graph;
  SbpAssignment assignment;
  TaskGraph tasks;
  // "phase recipe" -> how often, scalars apart ("phase recipe scalar").
  std::map<std::string, int> counts;
};

absl::Status Select(const std::string& mesh_text, int64_t micro, const MlpOptions& options,
                    Selected* selected) {
  RETURN_IF_ERROR(BuildMlp(&selected->graph, options));
  ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Parse(mesh_text));
  const Machine machine = Machine::Cpu();
  const Grid grid(mesh, micro);
  BoxingPlanner planner(machine);
  VariableLayouts layouts;
  ASSIGN_OR_RETURN(selected->assignment,
                   SelectSbp(selected->graph, grid, &planner, machine, &layouts));
  ASSIGN_OR_RETURN(selected->tasks,
                   Lower(selected->graph, grid, selected->assignment, &planner, machine));
  for (const BoxingNote& note : selected->tasks.boxings) {
    if (note.bytes == 0 && !absl::StrContains(note.recipe, "micro")) continue;
    std::string key = std::string(PhaseName(note.phase)) + " " + note.recipe;
    if (note.bytes > 0 && note.bytes <= 8) key += " scalar";
    ++selected->counts[key];
  }
  return absl::OkStatus();
}

using Counts = std::map<std::string, int>;

TEST(SelectSbpTest, DataParallelReducesEachGradientOnce) {
  Selected selected;
  ASSERT_TRUE(Select("data=2", 1, {}, &selected).ok());
  EXPECT_EQ(selected.counts,
            (Counts{{"update all_reduce[0]", 6}, {"update all_reduce[0] scalar", 1}}))
      << BoxingSummary(selected.tasks.boxings);
}

TEST(SelectSbpTest, MicroBatchesAddNoReductionOnTheWire) {
  Selected selected;
  ASSERT_TRUE(Select("data=2", 4, {}, &selected).ok());
  EXPECT_EQ(selected.counts, (Counts{{"update all_reduce[0]", 6},
                                     {"update all_reduce[0] scalar", 1},
                                     {"backward accumulate[micro]", 6},
                                     {"forward accumulate[micro]", 1}}))
      << BoxingSummary(selected.tasks.boxings);
}

TEST(SelectSbpTest, MegatronAnnotationsNeedOneReductionEachWay) {
  MlpOptions options;
  options.annotation = MegatronAnnotations(3);
  options.optimizer.clip = 1;
  Selected selected;
  ASSERT_TRUE(Select("model=2", 1, options, &selected).ok());
  // Forward: the row-parallel layer and the three rows of the split cross entropy. Backward: the
  // input of the last, column-parallel layer. Update: the norm.
  EXPECT_EQ(selected.counts, (Counts{{"forward all_reduce[0]", 4},
                                     {"backward all_reduce[0]", 1},
                                     {"update all_reduce[0] scalar", 1}}))
      << BoxingSummary(selected.tasks.boxings);
}

TEST(SelectSbpTest, AStorageAnnotationSplitsWhatIsStoredAndNotHowItIsRead) {
  MlpOptions options;
  Graph graph;
  ASSERT_TRUE(BuildMlp(&graph, options).ok());
  const TensorId weight = graph.FindVariable("layer0/weight").id();
  graph.mutable_tensor(weight).storage = *SbpAnnotation::Parse("data:S0");
  const Machine machine = Machine::Cpu();
  const Grid grid(*Mesh::Parse("data=2"), 1);
  BoxingPlanner planner(machine);
  VariableLayouts layouts;
  const auto assignment = SelectSbp(graph, grid, &planner, machine, &layouts);
  ASSERT_TRUE(assignment.ok()) << assignment.status();
  EXPECT_EQ(layouts.at("layer0/weight").stored[0], Sbp::S(0));
  EXPECT_EQ(layouts.at("layer0/weight").use[0], Sbp::B());
  EXPECT_EQ(layouts.at("layer0/weight.m").stored[0], Sbp::S(0));  // state follows
  const auto tasks = Lower(graph, grid, *assignment, &planner, machine);
  ASSERT_TRUE(tasks.ok()) << tasks.status();
  const std::string summary = BoxingSummary(tasks->boxings);
  EXPECT_TRUE(absl::StrContains(summary, "forward layer0/weight: all_gather[0]")) << summary;
  EXPECT_TRUE(
      absl::StrContains(summary, "layer0/backward/matmul_weight_gradient: reduce_scatter[0]"))
      << summary;
}

MlpOptions WithZero(int level) {
  MlpOptions options;
  options.optimizer.zero = {level, "data", *Mesh::Parse("data=2")};
  return options;
}

int64_t WireBytes(const Selected& selected) {
  int64_t bytes = 0;
  for (const BoxingNote& note : selected.tasks.boxings) bytes += note.firings * note.bytes;
  return bytes;
}

// A reduce-scatter and an all-gather for each all-reduce, and the norm is a sum over parts.
TEST(SelectSbpTest, AStateThatLiesApartCostsTheBytesOfAnAllReduce) {
  Selected plain, apart;
  ASSERT_TRUE(Select("data=2", 1, {}, &plain).ok());
  ASSERT_TRUE(Select("data=2", 1, WithZero(1), &apart).ok());
  EXPECT_EQ(apart.counts, (Counts{{"update reduce_scatter[0]", 6},
                                  {"update all_gather[0]", 6},
                                  {"update all_reduce[0] scalar", 2}}))
      << BoxingSummary(apart.tasks.boxings);
  EXPECT_EQ(WireBytes(apart), WireBytes(plain) + 8);
}

// Of a table that is read by ids no more than the rows named crosses, whichever way its state is
// cut.
TEST(SelectSbpTest, ATableWhoseStateLiesApartMovesItsRowsAlone) {
  constexpr int64_t kRows = 640, kWidth = 8, kIds = 6;
  for (const char* state : {"data:S0", "data:S1"}) {
    Graph graph;
    const Tensor ids = graph.Input("ids", DType::kI32, {kIds}, "data:S0");
    const Tensor table = Scope(&graph).Param("table", {kRows, kWidth}, {.state = state});
    OptimizerOptions options;
    options.clip = 1;
    ASSERT_TRUE(AddTraining(&graph, Mean(Embedding(table, ids)), options).ok());
    ASSERT_TRUE(graph.Finish().ok()) << graph.status();
    const Machine machine = Machine::Cpu();
    const Grid grid(*Mesh::Parse("data=2"), 1);
    BoxingPlanner planner(machine);
    VariableLayouts layouts;
    const auto assignment = SelectSbp(graph, grid, &planner, machine, &layouts);
    ASSERT_TRUE(assignment.ok()) << assignment.status();
    EXPECT_EQ(layouts.at("table").stored[0], Sbp::B());
    EXPECT_EQ(layouts.at("table.m").stored[0], *ParseSbp(state + 5));
    const auto tasks = Lower(graph, grid, *assignment, &planner, machine);
    ASSERT_TRUE(tasks.ok()) << tasks.status();
    // Rows become a sum, of what one part has and none of the others, or are put side by side.
    int64_t most = 0;
    for (const BoxingNote& note : tasks->boxings) most = std::max(most, note.bytes);
    const int64_t rows = kIds * kWidth * 4;
    EXPECT_EQ(most, state == std::string("data:S0") ? 2 * rows : rows)
        << BoxingSummary(tasks->boxings);
  }
}

// Tasks of the first device that gather a variable, each with the kernel behind it, in order:
// "layer0/weight > layer0 forward"
std::vector<std::string> Gathers(const TaskGraph& tasks, plan::StreamKind stream) {
  std::vector<std::string> found;
  const Task* gather = nullptr;
  for (const Task& task : tasks.tasks) {
    if (task.device != 0) continue;
    if (gather != nullptr && task.kind == plan::INSTRUCTION_KERNEL) {
      found.push_back(absl::StrCat(gather->scope, " > ", task.scope));
      gather = nullptr;
    }
    const bool variable =
        !task.inputs.empty() && !tasks.values[task.inputs[0].value].variable.empty();
    if (task.kind == plan::INSTRUCTION_FOLD && variable && task.stream == stream) gather = &task;
  }
  return found;
}

// So its copy takes bytes for as long as a few ops: backward gathers it again.
TEST(SelectSbpTest, AVariableThatIsStoredInPartsIsGatheredRightBeforeEachPhaseReadsIt) {
  Selected once, micro;
  ASSERT_TRUE(Select("data=2", 1, WithZero(3), &once).ok());
  EXPECT_EQ(once.counts, (Counts{{"forward all_gather[0]", 6},
                                 {"backward all_gather[0]", 2},
                                 {"backward reduce_scatter[0]", 6},
                                 {"update all_reduce[0] scalar", 2}}))
      << BoxingSummary(once.tasks.boxings);
  EXPECT_EQ(Gathers(once.tasks, plan::STREAM_COMPUTE),
            (std::vector<std::string>{
                "layer0/weight > layer0", "layer0/bias > layer0/add", "layer1/weight > layer1",
                "layer1/bias > layer1/add", "layer2/weight > layer2", "layer2/bias > layer2/add",
                "layer2/weight > layer2/backward", "layer1/weight > layer1/backward"}));
  // A script of one firing could wait for all micro-batches, so there it stands apart from them.
  ASSERT_TRUE(Select("data=2", 2, WithZero(3), &micro).ok());
  EXPECT_EQ(micro.counts["forward all_gather[0]"], 6);
  EXPECT_EQ(micro.counts["backward all_gather[0]"], 0);
  EXPECT_TRUE(Gathers(micro.tasks, plan::STREAM_COMPUTE).empty());
  EXPECT_EQ(Gathers(micro.tasks, plan::STREAM_COMM).size(), 6u);
}

// What readers disagree about would be boxed for some of them, and terms of a sum are no value.
TEST(SelectSbpTest, AVariableIsSplitWhereAllItsForwardReadersSplitIt) {
  Graph graph;
  const TensorId weight =
      graph.Variable("weight", DType::kF32, {8, 8}, VariableAttributes(), "").id();
  ASSERT_TRUE(graph.Finish().ok());
  const Grid grid(*Mesh::Parse("data=2"), 1);
  const SelectionProblem problem = {graph, grid, LayoutConstraints(graph)};
  const auto use_of = [&](const std::vector<Sbp>& readers) {
    SelectionState state(graph, grid);
    for (const Sbp& reader : readers) state.readers[weight].push_back({Sbp::B(), {reader}});
    VariableLayouts layouts;
    SettleVariables(problem, &state, &layouts);
    return layouts.at("weight").use[0];
  };
  EXPECT_EQ(use_of({}), Sbp::B());
  EXPECT_EQ(use_of({Sbp::S(1)}), Sbp::S(1));
  EXPECT_EQ(use_of({Sbp::S(1), Sbp::S(1)}), Sbp::S(1));
  EXPECT_EQ(use_of({Sbp::S(1), Sbp::S(0)}), Sbp::B());
  EXPECT_EQ(use_of({Sbp::S(1), Sbp::B()}), Sbp::B());
  EXPECT_EQ(use_of({Sbp::P(), Sbp::P()}), Sbp::B());
}

// The second reader of a tensor in the layout and on the stage of the first pays for its compute
// alone, and asking for a price changes nothing.
TEST(SelectSbpTest, ABoxingIsPricedOnce) {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF32, {512, 512}, "data:S0");
  graph.Output("y", Relu(x));
  graph.Output("z", Relu(x));
  ASSERT_TRUE(graph.Finish().ok());
  const Machine machine = Machine::Cpu();
  const Grid grid(*Mesh::Parse("data=2"), 1);
  BoxingPlanner planner(machine);
  const SelectionProblem problem = {graph, grid, LayoutConstraints(graph)};
  const SelectionCost cost(grid, &planner, machine);
  SelectionState state(graph, grid);
  ASSERT_TRUE(SettleInputs(problem, &state).ok());
  const Node &first = graph.node(1), &second = graph.node(2);
  Choice whole;
  whole.inputs = whole.outputs = {grid.Broadcast()};
  const int64_t compute = cost.Compute(graph, first, whole.inputs, whole.outputs);
  const int64_t boxing = cost.Boxing(graph.tensor(x.id()).type, state.assignment.consumed[x.id()],
                                     0, whole.inputs[0], 0);
  EXPECT_GT(boxing, 0);
  EXPECT_EQ(Price(problem, state, cost, first, whole), compute + boxing);
  EXPECT_EQ(Price(problem, state, cost, second, whole), compute + boxing);
  Take(problem, first, whole, &state);
  EXPECT_EQ(Price(problem, state, cost, second, whole), compute);
}

TEST(SelectSbpTest, RefusesWhatDoesNotFit) {
  Selected selected;
  absl::Status status = Select("data=2", 3, {}, &selected);  // a batch of 8
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), "batch of 8 is not divided by micro_batches=3"))
      << status;
  Selected other;
  status = Select("data=16", 1, {}, &other);
  EXPECT_TRUE(absl::StrContains(status.message(), "expected a batch of at least 16")) << status;
}

// A softmax is never split along what it sums over, and an annotation is never dropped.
TEST(SelectSbpTest, AnAnnotationThatNoSignatureTakesIsAnError) {
  Graph graph;
  const Tensor weight =
      graph.Variable("weight", DType::kF32, {8, 8}, VariableAttributes(), "data:S1");
  {
    const InScope here(Scope(&graph) / "scores");
    graph.Output("y", Softmax(weight));
  }
  ASSERT_TRUE(graph.Finish().ok());
  const Machine machine = Machine::Cpu();
  const Grid grid(*Mesh::Parse("data=2 model=1"), 1);
  BoxingPlanner planner(machine);
  VariableLayouts layouts;
  const absl::Status status = SelectSbp(graph, grid, &planner, machine, &layouts).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "scores: no signature of softmax takes weight [8,8] as data:S1 data:S1");
}

// No op splits one element: all devices of the axis hold it, and who asked otherwise is told.
TEST(SelectSbpTest, OneElementIsNotSplit) {
  MlpOptions options;
  options.widths = {4, 1, 2};
  options.annotation = MegatronAnnotations(2);
  Selected selected;
  ASSERT_EQ(Select("model=2", 1, options, &selected), absl::OkStatus());
  for (const NodeId id : selected.graph.variables()) {
    const Node& node = selected.graph.node(id);
    if (node.name != "layer0/weight" && node.name != "layer0/bias") continue;
    EXPECT_EQ(selected.assignment.produced[node.outputs[0]][1], Sbp::B()) << node.name;
  }
  EXPECT_THAT(selected.assignment.warnings,
              testing::Contains("the annotation model:S1 of layer0/weight [4,1] has no effect: one "
                                "element is not split over 2 devices"));
}

TEST(SelectSbpTest, AnAxisThatSplitsNothingIsAWarning) {
  Selected selected;
  ASSERT_TRUE(Select("data=2 model=2", 1, {}, &selected).ok());
  ASSERT_EQ(selected.assignment.warnings.size(), 1u);
  EXPECT_TRUE(absl::StrContains(selected.assignment.warnings[0], "model=2 splits nothing"));
}

}  // namespace
}  // namespace sluice
