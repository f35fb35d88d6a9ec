// Sizes beyond sense are an error of the graph or of the options; the largest that make sense
// compile, and no sum of them overflows (this is for --config=ubsan).
#include <cstdint>
#include <string>

#include "framework/compiler/compile.h"
#include "framework/ops/ops.h"
#include "framework/testing/models.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kMany = int64_t{1} << 40;

template <typename F>
std::string Error(F&& build) {
  Graph graph;
  const Scope scope = Scope(&graph) / "layer";
  const InScope here(scope);
  build(&graph, scope);
  EXPECT_FALSE(graph.status().ok());
  EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(graph.status().message());
}

TEST(SizeLimitsTest, TensorsBeyondSenseAreErrorsOfTheGraph) {
  const auto too_large = [](const char* where, const char* got) {
    return AllOf(HasSubstr(where),
                 HasSubstr("expected a tensor of at most 1099511627776 elements, got "),
                 HasSubstr(got));
  };
  EXPECT_THAT(Error([](Graph* graph, const Scope&) {
                graph->Input("x", DType::kF32, {kMany, kMany}, "");
              }),
              too_large("input \"x\"", "f32[1099511627776,1099511627776]"));
  EXPECT_THAT(Error([](Graph*, const Scope& scope) { scope.Param("w", {int64_t{1} << 62}, ""); }),
              too_large("layer/w", "f32[4611686018427387904]"));
  EXPECT_THAT(Error([](Graph* graph, const Scope&) {
                const Tensor x = graph->Input("x", DType::kF32, {kMany, 1}, "");
                MatMul(x, x, false, true);
              }),
              too_large("layer", "f32[1099511627776,1099511627776]"));
  EXPECT_THAT(Error([](Graph* graph, const Scope&) {
                Fill(graph, 1, {0, int64_t{1} << 62, 4});
              }),
              too_large("layer", "f32[0,4611686018427387904,4]"));
  EXPECT_THAT(Error([](Graph* graph, const Scope&) {
                Reshape(graph->Input("x", DType::kF32, {8}, ""), {kMany, kMany});
              }),
              HasSubstr("expected 8 elements"));
}

TEST(SizeLimitsTest, TheLargestTensorsCompile) {
  MlpOptions model;
  model.batch = int64_t{1} << 20;
  model.widths = {1 << 20, 1 << 20, 1 << 20};
  model.annotation = MegatronAnnotations(2);
  Graph graph;
  ASSERT_EQ(BuildMlp(&graph, model), absl::OkStatus());
  for (const char* mesh : {"data=1", "data=1024 model=64", "data=8 pipe=2"}) {
    SCOPED_TRACE(mesh);
    CompileOptions options;
    options.mesh = *Mesh::Parse(mesh);
    options.machine = Machine::Cpu();
    options.representatives_only = true;
    options.micro_batches = 4;
    const auto plan = CompilePlan({{"train", &graph}}, options);
    ASSERT_EQ(plan.status(), absl::OkStatus());
    EXPECT_GT(plan->programs(0).predicted_nanoseconds(), 0);
    EXPECT_GT(plan->devices(0).memory_bytes(), 0);
  }
}

TEST(SizeLimitsTest, CountsBeyondSenseAreErrorsOfTheOptions) {
  Graph graph;
  ASSERT_EQ(BuildMlp(&graph, MlpOptions()), absl::OkStatus());
  CompileOptions options;
  options.mesh = *Mesh::Parse("data=2");
  options.machine = Machine::Cpu();
  options.micro_batches = int64_t{1} << 62;
  EXPECT_EQ(CompilePlan({{"train", &graph}}, options).status().message(),
            "micro_batches: expected at most 1048576, got 4611686018427387904");
  options.micro_batches = 1;
  ProgramGraph program{"train", &graph};
  program.micro_batches = int64_t{1} << 62;
  EXPECT_EQ(CompilePlan({program}, options).status().message(),
            "program train: micro_batches: expected at most 1048576, got 4611686018427387904");
  options.chunks = int64_t{1} << 62;
  EXPECT_EQ(CompilePlan({{"train", &graph}}, options).status().message(),
            "chunks: expected at most 1048576, got 4611686018427387904");
  EXPECT_THAT(std::string(Mesh::Parse("data=1099511627776 model=4").status().message()),
              HasSubstr("expected at most 1048576 devices"));
}

}  // namespace
}  // namespace sluice
