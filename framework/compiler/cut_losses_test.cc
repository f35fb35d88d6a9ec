// Which losses run by pieces, what pieces are made of and in which order, and what a card needs.
#include "framework/compiler/cut_losses.h"

#include <memory>
#include <string>
#include <vector>

#include "framework/compiler/compile.h"
#include "framework/compiler/fuse_on_cards_testing.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/passes/mixed_precision.h"
#include "framework/passes/optimizer.h"
#include "framework/passes/pass.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// Of a table that the first layer reads, too: 4 x 16 positions, 64 classes.
struct Model {
  bool keeps_logits = false, reads_loss = false;
  std::string tokens = "data:S0", table = "";  // how they lie
};

std::unique_ptr<const Graph> Training(const Model& model) {
  Graph graph;
  const Tensor tokens = graph.Input("tokens", DType::kI32, {4, 16}, model.tokens);
  const Tensor labels = graph.Input("labels", DType::kI32, {4, 16}, model.tokens);
  const Tensor table = graph.Variable("table", DType::kF32, {64, 8}, {"normal", 0.5}, model.table);
  const Tensor x = Tanh(Embedding(table, tokens));
  const Tensor logits = MatMul(x, table, false, /*transpose_b=*/true);
  if (model.keeps_logits) graph.Output("logits", logits);
  Tensor losses = SoftmaxCrossEntropy(logits, labels);
  if (model.reads_loss) losses = Multiply(losses, losses);
  graph.Output("loss", Mean(losses));
  EXPECT_TRUE(FinishIn({.compute = DType::kBF16}, &graph).ok()) << graph.status();
  auto train = RunPasses(graph, {Train(OptimizerOptions())});
  EXPECT_TRUE(train.ok()) << train.status();
  return *std::move(train);
}

absl::StatusOr<Compilation> CompileWith(const Model& model, int64_t largest,
                                        const std::string& mesh = kCuda) {
  CompileOptions options;
  options.mesh = *Mesh::Parse(mesh);
  options.largest_logits = largest;
  const std::unique_ptr<const Graph> graph = Training(model);
  return Compile({{"train", graph.get()}}, options);
}

Counts CountsOf(const Model& model, int64_t largest, const std::string& mesh = kCuda) {
  return OpsOf(CompileWith(model, largest, mesh));
}

constexpr int64_t kLogits = 4 * 16 * 64 * 2;  // bytes

TEST(CutLossesTest, PiecesHaveAtMostSoManyBytes) {
  EXPECT_EQ(CountsOf({}, kLogits)["ce_gradient"], 1);
  EXPECT_EQ(CountsOf({}, kLogits - 1)["ce_gradient"], 2);
  EXPECT_EQ(CountsOf({}, kLogits / 3)["ce_gradient"], 4) << "16 rows in three";
  EXPECT_EQ(CountsOf({}, 1)["ce_gradient"], 1) << "a row has more";
  EXPECT_EQ(CountsOf({}, kLogits / 2, "data=2 @cuda")["ce_gradient"], 1) << "half on each";
  EXPECT_EQ(CountsOf({}, kLogits / 4, "data=2 @cuda")["ce_gradient"], 2);
}

TEST(CutLossesTest, APieceIsWhatTheWholeWas) {
  Counts ops = CountsOf({}, kLogits / 2);
  for (const char* const op : {"matmul", "ce_max_and_sum_exp", "ce_pick", "ce_combine",
                               "ce_gradient", "matmul_input_gradient"}) {
    EXPECT_EQ(ops[op], 2) << op;
  }
  EXPECT_EQ(ops["matmul_weight_gradient"], 1);
  EXPECT_EQ(ops["matmul_weight_gradient_add"], 1);
  EXPECT_EQ(ops["slice"], 2 * 3) << "x, labels and slopes";
  EXPECT_EQ(ops["concat"], 2) << "losses and x's gradient";
}

// The second product behind all that reads what the first made.
TEST(CutLossesTest, OnePieceAfterTheOther) {
  const auto compiled = CompileWith({}, kLogits / 2);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const Graph& graph = *compiled->programs[0].graph;
  NodeId first_ends = -1;
  std::vector<NodeId> products;
  for (const Node& node : graph.nodes()) {
    if (node.op == &MatMulOp()) products.push_back(node.id);
    if (node.op == &MatMulWeightGradientOp()) first_ends = node.id;
  }
  ASSERT_EQ(products.size(), 2u);
  EXPECT_LT(products[0], first_ends);
  EXPECT_LT(first_ends, products[1]);
}

TEST(CutLossesTest, ACardHasRoomForOnePiece) {
  const auto bytes = [](int64_t largest) {
    const auto compiled = CompileWith({}, largest);
    EXPECT_TRUE(compiled.ok()) << compiled.status();
    return compiled.ok() ? compiled->plan.devices(0).memory_bytes() : 0;
  };
  EXPECT_LT(bytes(kLogits / 4), bytes(kLogits) - kLogits / 2);
}

TEST(CutLossesTest, OthersStayWhole) {
  EXPECT_EQ(CountsOf({.keeps_logits = true}, kLogits / 2)["ce_gradient"], 1);
  EXPECT_EQ(CountsOf({.reads_loss = true}, kLogits / 2)["ce_gradient"], 1)
      << "slopes are made of the losses";
  EXPECT_EQ(CountsOf({}, kLogits / 2, "data=1")["ce_gradient"], 1) << "on a CPU";
}

// Where positions are split over devices samples are cut; where classes are, nothing is.
TEST(CutLossesTest, WhatIsSplitIsNotCut) {
  Counts ops = CountsOf({.tokens = "data:S1"}, kLogits / 4, "data=2 @cuda");
  EXPECT_EQ(ops["ce_gradient"], 2);
  ops = CountsOf({.tokens = "", .table = "model:S0"}, kLogits / 4, "model=2 @cuda");
  EXPECT_EQ(ops["ce_gradient"], 1);
}

}  // namespace
}  // namespace sluice
