// Batch norm between two products, on layouts that distribute its groups, split the rows of one, or
// split its channels: three steps of each equal those of one device, running statistics too.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/compiler/compile.h"
#include "framework/ops/ops.h"
#include "framework/passes/optimizer.h"
#include "framework/testing/parity.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr int kSteps = 3, kBatch = 12, kIn = 3, kChannels = 5;
constexpr double kTolerance = 1e-12;

struct Layout {
  std::string mesh;
  int64_t groups = 1, micro = 1;
  std::string channels = {};  // annotation of the weight in front
};

const Layout kLayouts[] = {
    {"data=1", 3},
    {"data=2", 4},
    {"data=4", 4},     // a group on each device
    {"data=2", 1},     // one group on both
    {"data=5", 1},     // unevenly
    {"data=4", 2},     // no device has a whole group
    {"data=1", 6, 3},  // two groups a micro-batch
    {"data=2", 4, 2},  // one a device and micro-batch
    {"data=2", 2, 2},  // one a micro-batch, on both devices
    {"model=2", 3, 1, "model:S1"},
    {"data=2 model=2", 1, 1, "model:S1"},
    {"data=2 model=2", 6, 3, "model:S1"},
    {"pipe=2", 4, 4},
    {"data=2 pipe=2", 2, 2},
};

void Build(const Layout& layout, Graph* graph) {
  const Tensor x = graph->Input("x", DType::kF64, {kBatch, 2, kIn}, "data:S0");
  const VariableAttributes normal = {"normal", 0.7}, ones = {"ones"};
  const auto variable = [&](const char* name, const Shape& shape, const VariableAttributes& init,
                            const std::string& read, int stage) {
    return graph->Variable(name, DType::kF64, shape, init, read, stage);
  };
  const int last = layout.mesh.find("pipe") == std::string::npos ? 0 : 1;
  const Tensor w = variable("w", {kIn, kChannels}, normal, layout.channels, 0);
  const Tensor gamma = variable("gamma", {kChannels}, ones, "", last);
  const Tensor beta = variable("beta", {kChannels}, normal, "", last);
  const Tensor head = variable("head", {kChannels, 2}, normal, "", last);
  const BatchNormResult made = BatchNorm(MatMul(x, w), gamma, beta, layout.groups, 1e-3);
  for (const char* name : {"running_mean", "running_variance"}) {
    const bool mean = std::string(name) == "running_mean";
    const Tensor average = variable(name, {kChannels}, ones, "", -1);
    graph->SetRole(average.id(), Role::kStatistic, -1);
    MovingAverage(average, ReduceMean(mean ? made.mean : made.variance, {0}), 0.25);
  }
  OptimizerOptions options;
  options.kind = OptimizerOptions::kSgd;
  options.momentum = 0.5;
  const Tensor loss = Mean(Gelu(MatMul(Gelu(made.y), head)));
  ASSERT_TRUE(AddTraining(graph, loss, options).ok()) << graph->status();
  ASSERT_TRUE(graph->Finish().ok()) << graph->status();
}

std::vector<HostTensorMap> Feeds() {
  std::vector<HostTensorMap> feeds(kSteps);
  for (int step = 0; step < kSteps; ++step) {
    Array x({kBatch, 2, kIn});
    for (size_t i = 0; i < x.values.size(); ++i) {
      x.values[i] = std::sin(static_cast<double>(7 * i * i + step)) + 0.5;
    }
    feeds[step]["x"] = FromArray(x, DType::kF64);
    feeds[step]["learning_rate"] = FromArray(Array({}, 0.5), DType::kF32);
    feeds[step]["step"] = FromArray(Array({}, step + 1), DType::kI32);
  }
  return feeds;
}

TEST(BatchNormTest, NoLayoutChangesWhatItLearns) {
  const std::vector<HostTensorMap> feeds = Feeds();
  for (const Layout& layout : kLayouts) {
    SCOPED_TRACE(absl::StrCat(layout.mesh, " groups ", layout.groups, " micro ", layout.micro));
    Graph graph;
    Build(layout, &graph);
    const auto reference = InterpretSteps(graph, feeds, 3);
    ASSERT_TRUE(reference.ok()) << reference.status();
    CompileOptions compile;
    const auto mesh = Mesh::Parse(layout.mesh);
    ASSERT_TRUE(mesh.ok()) << mesh.status();
    compile.mesh = *mesh;
    compile.micro_batches = layout.micro;
    compile.machine = Machine::Cpu();
    const auto plan = CompilePlan({{"train", &graph}}, compile);
    ASSERT_TRUE(plan.ok()) << plan.status();
    for (const uint64_t interleaving : {1, 2}) {
      PlanExecutorOptions run;
      run.seed = 3;
      run.interleaving = interleaving;
      const absl::Status status =
          CompareWithReference(*plan, feeds, *reference, kTolerance, run, interleaving == 2);
      EXPECT_TRUE(status.ok()) << status;
    }
  }
}

// Where no split takes micro-batches apart, statistics wait for all of them.
TEST(BatchNormTest, AGroupMayBeOfSeveralMicroBatches) {
  const std::vector<HostTensorMap> feeds = Feeds();
  const Layout layout = {"data=2", 1, 2};
  Graph graph;
  Build(layout, &graph);
  CompileOptions compile;
  compile.mesh = *Mesh::Parse(layout.mesh);
  compile.micro_batches = layout.micro;
  compile.machine = Machine::Cpu();
  const auto plan = CompilePlan({{"train", &graph}}, compile);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto reference = InterpretSteps(graph, feeds, 3);
  ASSERT_TRUE(reference.ok()) << reference.status();
  PlanExecutorOptions run;
  run.seed = 3;
  const absl::Status status = CompareWithReference(*plan, feeds, *reference, kTolerance, run);
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace sluice
