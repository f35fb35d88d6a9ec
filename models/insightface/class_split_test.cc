// What many classes cost, counted in compiled plans: each device has its share of the class matrix,
// of its state and of what is made of it, and nothing that crosses devices is as large as they.
#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "framework/compiler/compile.h"
#include "framework/plan/statistics.h"
#include "framework/session/session.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/insightface/insightface.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMillion = 1000000;

constexpr int64_t kGroups = 8;  // of a sample

absl::Status Build(int64_t classes, double sample_rate, Graph* graph) {
  FaceConfig config;
  config.network = "ir18";
  config.width = 8;
  config.image_size = 32;
  config.channels = 1;
  config.classes = classes;
  config.sample_rate = sample_rate;
  config.sample_groups = sample_rate < 1 ? kGroups : 1;
  OptimizerOptions optimizer;
  optimizer.kind = OptimizerOptions::kSgd;
  optimizer.momentum = 0.9;
  return BuildFaceTrain(config, optimizer, graph);
}

// What a plan says of the first device, and of a step of all devices.
struct Counted {
  int64_t matrix_bytes = 0, state_bytes = 0, planned_bytes = 0, wire_bytes = 0;
};

Counted Count(int64_t classes, const std::string& mesh, double sample_rate = 1) {
  Counted counted;
  Graph graph;
  EXPECT_EQ(Build(classes, sample_rate, &graph), absl::OkStatus());
  CompileOptions options;
  options.mesh = *Mesh::Parse(mesh);
  options.machine = Machine::Cpu();
  const auto plan = CompilePlan({{"train", &graph}}, options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return counted;
  for (const plan::Variable& variable : plan->variables()) {
    int64_t bytes = 4;
    for (const plan::VariableShard& shard : variable.shards()) {
      if (shard.device() != 0) continue;
      for (const int64_t extent : shard.shard().local()) bytes *= extent;
    }
    if (variable.name() == "classes/weight") counted.matrix_bytes = bytes;
    if (variable.name() == "classes/weight.momentum") counted.state_bytes = bytes;
  }
  counted.planned_bytes = plan->devices(0).memory_bytes();
  const auto index = ProgramIndex::Build(plan->programs(0));
  EXPECT_TRUE(index.ok()) << index.status();
  if (index.ok()) counted.wire_bytes = CountProgram(*index).wire_bytes;
  std::printf("%lld classes on %s: %lld bytes planned a device, %lld on the wire\n",
              static_cast<long long>(classes), mesh.c_str(),
              static_cast<long long>(counted.planned_bytes),
              static_cast<long long>(counted.wire_bytes));
  return counted;
}

TEST(ClassSplitTest, ADeviceHasItsShareOfAMillionClasses) {
  const Counted one = Count(kMillion, "model=1");
  EXPECT_EQ(one.matrix_bytes, kMillion * 512 * 4);
  EXPECT_EQ(one.wire_bytes, 0);
  for (const int64_t devices : {2, 4}) {
    const Counted split = Count(kMillion, absl::StrCat("model=", devices));
    EXPECT_EQ(split.matrix_bytes, one.matrix_bytes / devices);
    EXPECT_EQ(split.state_bytes, one.state_bytes / devices);
    // All but the backbone falls, of which each device has all.
    EXPECT_LT(split.planned_bytes, one.planned_bytes / devices + (int64_t{32} << 20));
  }
}

TEST(ClassSplitTest, TheWireDoesNotKnowHowManyClassesThereAre) {
  for (const char* mesh : {"model=2", "model=4"}) {
    const Counted few = Count(kMillion / 100, mesh), many = Count(kMillion, mesh);
    EXPECT_GT(few.wire_bytes, 0);
    EXPECT_EQ(few.wire_bytes, many.wire_bytes) << mesh;
    // A matrix alone would be 2 GB.
    EXPECT_LT(many.wire_bytes, int64_t{64} << 20);
  }
}

// A tenth of the classes is gathered, multiplied and updated: beside the variables a step plans for
// those. What crosses devices is what a softmax over all has, and the labels stay where they are.
TEST(ClassSplitTest, ASampleTakesItsShareAndNoMessage) {
  for (const int64_t devices : {1, 2, 4}) {
    const std::string mesh = absl::StrCat("model=", devices);
    const Counted all = Count(kMillion, mesh), tenth = Count(kMillion, mesh, 0.1);
    EXPECT_EQ(tenth.matrix_bytes, all.matrix_bytes);
    EXPECT_EQ(tenth.state_bytes, all.state_bytes);
    const int64_t variables = all.matrix_bytes + all.state_bytes;
    // The rows, the same of length 1 and their gradient; the backbone takes what it does.
    EXPECT_LT(tenth.planned_bytes - variables,
              3 * all.matrix_bytes / 10 + (int64_t{96} << 20) / devices);
    EXPECT_EQ(tenth.wire_bytes, all.wire_bytes) << mesh;
  }
}

TEST(ClassSplitTest, ExplainShowsTheShare) {
  Graph graph;
  ASSERT_EQ(Build(kMillion, 1, &graph), absl::OkStatus());
  SessionOptions options;
  options.mesh = "model=4";
  const absl::StatusOr<std::string> text = Session::ExplainPlan({{"train", &graph}}, options);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("classes/weight f32[1000000,512]  stage 0  model:S0\n"));
}

}  // namespace
}  // namespace sluice
