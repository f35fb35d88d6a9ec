// Which norms are made again in backward, and which are kept.
#include "framework/compiler/make_again.h"

#include <memory>
#include <string>

#include "framework/compiler/compile.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/passes/optimizer.h"
#include "framework/passes/pass.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

enum class Behind { kPool, kPoolThatIsKept, kPoolAndProduct };

// A product, a norm, a relu and a pooling, trained.
std::unique_ptr<const Graph> Training(Behind behind) {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF32, {4, 6}, "data:S0");
  const auto variable = [&](const char* name, const Shape& shape) {
    return graph.Variable(name, DType::kF32, shape, {"normal", 0.5}, "");
  };
  const Tensor pixels = Reshape(MatMul(x, variable("weight", {6, 32})), {4, 4, 4, 2});
  const Tensor y =
      Relu(BatchNorm(pixels, variable("gamma", {2}), variable("beta", {2}), /*groups=*/2, 1e-3).y);
  Tensor loss = Mean(MaxPool(y, {.window = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}));
  if (behind == Behind::kPoolThatIsKept) graph.Output("y", y);
  if (behind == Behind::kPoolAndProduct) {
    loss = loss + Mean(MatMul(Reshape(y, {4, 32}), variable("other", {32, 5})));
  }
  graph.Output("loss", loss);
  EXPECT_TRUE(graph.Finish().ok()) << graph.status();
  auto train = RunPasses(graph, {Train(OptimizerOptions())});
  EXPECT_TRUE(train.ok()) << train.status();
  return *std::move(train);
}

// How many norms there are, and of which phase the one is that the pooling's gradient reads.
struct Found {
  int norms = 0;
  Phase read = Phase::kUpdate;
};
Found FindIn(Behind behind, const std::string& mesh, bool fuse = true) {
  CompileOptions options;
  options.mesh = *Mesh::Parse(mesh);
  options.fuse = fuse;
  const std::unique_ptr<const Graph> graph = Training(behind);
  const auto compiled = Compile({{"train", graph.get()}}, options);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  Found found;
  if (!compiled.ok()) return found;
  const Graph& made = *compiled->programs[0].graph;
  for (const Node& node : made.nodes()) {
    found.norms += node.op == &BatchNormReluOp() || node.op == &BatchNormOp() ? 1 : 0;
    if (node.op != &MaxPoolGradientOp()) continue;
    found.read = made.node(made.tensor(node.inputs[0]).producer).phase;
  }
  return found;
}

TEST(MakeAgainTest, ANormForThePoolingBehindIt) {
  for (const char* const mesh : {"data=1 @cuda", "data=2 @cuda"}) {
    const Found found = FindIn(Behind::kPool, mesh);
    EXPECT_EQ(found.norms, 2) << mesh;
    EXPECT_EQ(found.read, Phase::kBackward) << mesh;
  }
  const Found on_cpu = FindIn(Behind::kPool, "data=1");
  EXPECT_EQ(on_cpu.norms, 1);
  EXPECT_EQ(on_cpu.read, Phase::kForward);
  EXPECT_EQ(FindIn(Behind::kPool, "data=1 @cuda", /*fuse=*/false).norms, 1);
}

TEST(MakeAgainTest, WhatIsKeptAnywayIsNotMadeAgain) {
  for (const Behind behind : {Behind::kPoolThatIsKept, Behind::kPoolAndProduct}) {
    const Found found = FindIn(behind, "data=1 @cuda");
    EXPECT_EQ(found.norms, 1);
    EXPECT_EQ(found.read, Phase::kForward);
  }
}

}  // namespace
}  // namespace sluice
