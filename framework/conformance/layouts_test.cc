// A small MLP on many layouts: five steps equal those of one device, under several interleavings.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/compiler/compile.h"
#include "framework/testing/models.h"
#include "framework/testing/parity.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr int kSteps = 5;
constexpr double kTolerance = 1e-12;

struct Layout {
  std::string mesh;
  int64_t micro = 1, batch = 8;
  bool annotation = false;
  int64_t script_length = 0;
};

const Layout kLayouts[] = {
    {"data=1"},
    {"data=2"},
    {"data=4"},
    {"data=3", 1, 8},
    {"model=2", 1, 8, true},
    {"model=3", 1, 8, true},
    {"data=1", 2},
    {"data=1", 4},
    {"data=2", 4},
    {"data=3", 3, 12},
    {"pipe=2", 4},
    {"pipe=4", 4},
    {"data=2 model=2", 1, 8, true},
    {"data=2 model=2", 2, 8, true},
    {"data=2 model=2 pipe=2", 2, 8, true},
    {"data=2 pipe=2", 4},
    {"data=2", 2, 8, false, 1},
    {"data=2 model=2 pipe=2", 2, 8, true, 1},
    {"pipe=2", 4, 8, false, 2},
};

std::vector<HostTensorMap> Feeds(const MlpOptions& options) {
  std::vector<HostTensorMap> feeds;
  for (int step = 0; step < kSteps; ++step) {
    HostTensorMap map;
    for (auto& feed : MlpBatch(options, step, 0.0625)) map[feed.first] = std::move(feed.second);
    feeds.push_back(std::move(map));
  }
  return feeds;
}

void Check(const Layout& layout, OptimizerOptions::Kind kind, double clip) {
  SCOPED_TRACE(absl::StrCat(layout.mesh, " micro ", layout.micro, " batch ", layout.batch,
                            " script length ", layout.script_length, " clip ", clip,
                            kind == OptimizerOptions::kSgd ? " sgd" : " adamw"));
  const auto mesh = Mesh::Parse(layout.mesh);
  ASSERT_TRUE(mesh.ok()) << mesh.status();
  MlpOptions options;
  options.batch = layout.batch;
  options.widths = {6, 10, 12, 9, 8};
  options.dtype = DType::kF64;
  options.dropout = 0.25;
  if (layout.annotation) options.annotation = MegatronAnnotations(4);
  options.optimizer.kind = kind;
  options.optimizer.momentum = 0.5;
  options.optimizer.weight_decay = 0.125;
  options.optimizer.clip = clip;
  Graph graph;
  ASSERT_TRUE(BuildMlp(&graph, options).ok()) << graph.status();
  const std::vector<HostTensorMap> feeds = Feeds(options);
  const auto reference = InterpretSteps(graph, feeds, 3);
  ASSERT_TRUE(reference.ok()) << reference.status();
  CompileOptions compile;
  compile.mesh = *mesh;
  compile.micro_batches = layout.micro;
  compile.script_length = layout.script_length;
  compile.machine = Machine::Cpu();
  const auto plan = CompilePlan({{"train", &graph}}, compile);
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (uint64_t interleaving : {1, 2, 3}) {
    PlanExecutorOptions run;
    run.seed = 3;
    run.interleaving = interleaving;
    const absl::Status status =
        CompareWithReference(*plan, feeds, *reference, kTolerance, run, interleaving == 2);
    ASSERT_TRUE(status.ok()) << status << "\ninterleaving " << interleaving;
  }
}

TEST(LayoutsTest, AdamW) {
  for (const Layout& layout : kLayouts) Check(layout, OptimizerOptions::kAdamW, 0);
}

TEST(LayoutsTest, AdamWWithClip) {
  for (const Layout& layout : kLayouts) Check(layout, OptimizerOptions::kAdamW, 0.25);
}

TEST(LayoutsTest, SgdWithClip) {
  for (const Layout& layout : kLayouts) Check(layout, OptimizerOptions::kSgd, 0.25);
}

}  // namespace
}  // namespace sluice
