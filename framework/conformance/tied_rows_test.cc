// A table that both ends of a pipeline read, on layouts that split the batch over devices and over
// micro-batches: rows of its gradient are packed by position, which changes no result and moves no
// bytes between devices.
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/compiler/compile.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/passes/optimizer.h"
#include "framework/plan/statistics.h"
#include "framework/tensor/random.h"
#include "framework/testing/parity.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr int kSteps = 3;
constexpr int64_t kLength = 3, kRows = 7, kWidth = 4;
constexpr double kTolerance = 1e-12;

struct Layout {
  std::string mesh;
  int64_t micro = 1, batch = 8;
  std::string table = "";  // its annotation
  int64_t script_length = 0;
  bool sequence_split = false;
};

const Layout kLayouts[] = {
    {"data=2 pipe=2", 2},
    {"data=2 pipe=2", 4, 12},  // 2 and 1 samples of a micro-batch
    {"data=3 pipe=2", 2},      // 2, 1 and 1
    {"data=2 pipe=2", 2, 8, "", 1},
    {"data=2 model=2 pipe=2", 2, 8, "model:S0"},
    {"data=2 model=2 pipe=2", 3, 9, "model:S1"},
    {"data=2 model=2 pipe=2", 2, 8, "", 0, true},
};

std::string NameOf(const Layout& layout) {
  return absl::StrCat(layout.mesh, " micro ", layout.micro, " batch ", layout.batch, " table ",
                      layout.table, " script length ", layout.script_length,
                      layout.sequence_split ? " sequence split" : "");
}

absl::Status Build(const Layout& layout, Graph* graph) {
  const std::string batch = layout.sequence_split ? "data:S0 model:S1" : "data:S0";
  const Tensor ids = graph->Input("ids", DType::kI32, {layout.batch, kLength}, batch);
  const Tensor labels = graph->Input("labels", DType::kI32, {layout.batch, kLength}, batch);
  VariableAttributes normal;
  normal.init = "normal";
  normal.stddev = 0.4;
  const Tensor table = graph->Variable("table", DType::kF64, {kRows, kWidth}, normal, layout.table);
  Tensor x = Embedding(table, ids);
  for (int i = 0; i < 2; ++i) {
    const Scope scope = Scope(graph).Block(absl::StrCat("layer", i));
    const InScope here(scope);
    x = x + Gelu(MatMul(x, graph->Variable(scope.path() + "/weight", DType::kF64, {kWidth, kWidth},
                                           normal, "")));
  }
  const Tensor loss = Mean(SoftmaxCrossEntropy(MatMul(x, table, false, true), labels));
  OptimizerOptions optimizer;
  optimizer.clip = 0.25;
  RETURN_IF_ERROR(AddTraining(graph, loss, optimizer));
  return graph->Finish();
}

std::vector<HostTensorMap> Feeds(const Layout& layout) {
  std::vector<HostTensorMap> feeds;
  for (int64_t step = 0; step < kSteps; ++step) {
    HostTensorMap map;
    for (const char* name : {"ids", "labels"}) {
      Array values(Shape{layout.batch, kLength});
      for (size_t i = 0; i < values.values.size(); ++i) {
        values.values[i] = RandomWord(5, RandomKey(name), step, static_cast<int64_t>(i)) % kRows;
      }
      map[name] = FromArray(values, DType::kI32);
    }
    map["learning_rate"] = FromArray(Array({}, 0.0625), DType::kF32);
    map["step"] = FromArray(Array({}, static_cast<double>(step + 1)), DType::kI32);
    feeds.push_back(std::move(map));
  }
  return feeds;
}

// The names of the tensors that `add_sparse` adds by position.
std::vector<std::string> RowsAdded(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes()) {
    if (node.op != &AddSparseOp()) continue;
    for (const size_t input : {1, 2}) {
      names.push_back(graph.node(graph.tensor(node.inputs[input]).producer).name);
    }
  }
  return names;
}

TEST(TiedRowsTest, PackedByPositionTheyGiveWhatOneDeviceGives) {
  for (const Layout& layout : kLayouts) {
    SCOPED_TRACE(NameOf(layout));
    Graph graph;
    ASSERT_EQ(Build(layout, &graph), absl::OkStatus());
    const std::vector<HostTensorMap> feeds = Feeds(layout);
    const auto reference = InterpretSteps(graph, feeds, 3);
    ASSERT_TRUE(reference.ok()) << reference.status();
    CompileOptions compile;
    compile.mesh = *Mesh::Parse(layout.mesh);
    compile.micro_batches = layout.micro;
    compile.script_length = layout.script_length;
    compile.machine = Machine::Cpu();
    const auto plan = CompilePlan({{"train", &graph}}, compile);
    ASSERT_TRUE(plan.ok()) << plan.status();
    for (const uint64_t interleaving : {1, 2, 3}) {
      PlanExecutorOptions run;
      run.seed = 3;
      run.interleaving = interleaving;
      const absl::Status status =
          CompareWithReference(*plan, feeds, *reference, kTolerance, run, interleaving == 2);
      ASSERT_TRUE(status.ok()) << status << "\ninterleaving " << interleaving;
    }
    const auto index = ProgramIndex::Build(plan->programs(0));
    ASSERT_TRUE(index.ok()) << index.status();
    const ProgramStatistics statistics = CountProgram(*index);
    const std::vector<std::string> rows = RowsAdded(graph);
    ASSERT_EQ(rows.size(), 2u);
    for (const std::string& name : rows) {
      int packs = 0;
      for (const BoxingCount& boxing : statistics.boxings) {
        if (boxing.tensor != name) continue;
        ++packs;
        EXPECT_EQ(boxing.times, layout.micro) << name << " " << boxing.recipe;
        EXPECT_EQ(boxing.wire_bytes, 0) << name << " " << boxing.recipe;
      }
      EXPECT_EQ(packs, 1) << name << "\n" << SummarizePlan(*plan);
    }
  }
}

}  // namespace
}  // namespace sluice
