// What is cast, what is not, how often; and no product of the catalogue is forgotten.
#include "framework/passes/mixed_precision.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "framework/ops/all_ops.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/passes/optimizer.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr PrecisionOptions kLow = {.compute = DType::kBF16};

DType TypeOf(const Graph& graph, TensorId id) { return graph.tensor(id).type.dtype; }

// The only node of the op.
const Node& NodeOf(const Graph& graph, const OpDef& op) {
  const Node* found = nullptr;
  for (const Node& node : graph.nodes()) {
    if (node.op != &op) continue;
    EXPECT_EQ(found, nullptr) << "two nodes of " << op.name;
    found = &node;
  }
  EXPECT_NE(found, nullptr) << "no node of " << op.name;
  return *found;
}

int Count(const Graph& graph, const OpDef& op) {
  return static_cast<int>(
      std::ranges::count_if(graph.nodes(), [&](const Node& node) { return node.op == &op; }));
}

// x [4,3] -> gelu(x w + bias), added to the stream, layer norm, and so to the mean of squares.
void BuildBlock(Graph* graph) {
  const Tensor x = graph->Input("x", DType::kF32, {4, 3}, "");
  const Tensor w = graph->Variable("w", DType::kF32, {3, 3}, {}, "");
  const Tensor bias = graph->Variable("bias", DType::kF32, {3}, {}, "");
  const Tensor gamma = graph->Variable("gamma", DType::kF32, {3}, {}, "");
  const Tensor stream = x + Gelu(MatMul(x, w) + bias);
  graph->SetRole(stream.id(), Role::kResidual, -1);
  const Tensor y = LayerNorm(stream, gamma, bias);
  graph->Output("loss", Mean(MatMul(y, w)));
  ASSERT_EQ(graph->Finish(), absl::OkStatus());
}

TEST(MixedPrecisionTest, WhatFollowsAProductStaysLowAndTheStreamDoesNot) {
  Graph graph;
  BuildBlock(&graph);
  const auto low = MixedPrecision(kLow).run(graph);
  ASSERT_TRUE(low.ok()) << low.status();
  const Graph& made = **low;
  for (const Node& node : made.nodes()) {
    if (node.op != &MatMulOp()) continue;
    for (TensorId id : {node.inputs[0], node.inputs[1], node.outputs[0]}) {
      EXPECT_EQ(TypeOf(made, id), DType::kBF16);
    }
  }
  EXPECT_EQ(TypeOf(made, NodeOf(made, GeluOp()).outputs[0]), DType::kBF16);
  const Node& norm = NodeOf(made, LayerNormOp());
  for (TensorId id : norm.inputs) EXPECT_EQ(TypeOf(made, id), DType::kF32);
  EXPECT_EQ(TypeOf(made, made.outputs()[0].second), DType::kF32);
  // x, w (once for two readers), bias beside an activation, the branch up, the norm's result.
  EXPECT_EQ(Count(made, CastOp()), 5);
}

TEST(MixedPrecisionTest, TheStreamMayBeLowToo) {
  Graph graph;
  BuildBlock(&graph);
  const auto low = MixedPrecision({.compute = DType::kBF16, .residual = DType::kBF16}).run(graph);
  ASSERT_TRUE(low.ok()) << low.status();
  const auto streams = (*low)->TensorsOf(Role::kResidual);
  ASSERT_EQ(streams.size(), 1u);
  EXPECT_EQ(TypeOf(**low, streams[0].first), DType::kBF16);
}

TEST(MixedPrecisionTest, GradientsOfParametersAreF32AndNotRoundedBefore) {
  Graph graph;
  BuildBlock(&graph);
  const auto train = RunPasses(graph, {MixedPrecision(kLow), Train(OptimizerOptions())});
  ASSERT_TRUE(train.ok()) << train.status();
  const Graph& made = **train;
  for (const Node& node : made.nodes()) {
    if (node.op != &MatMulWeightGradientOp()) continue;
    EXPECT_EQ(TypeOf(made, node.inputs[0]), DType::kBF16);
    EXPECT_EQ(TypeOf(made, node.outputs[0]), DType::kF32);
    for (const Node& reader : made.nodes()) {
      const bool reads = std::ranges::count(reader.inputs, node.outputs[0]) > 0;
      EXPECT_FALSE(reads && reader.op == &CastOp()) << reader.name;
    }
  }
  EXPECT_EQ(Count(made, MatMulWeightGradientOp()), 2);
  const auto gradients = made.TensorsOf(Role::kGradient);
  EXPECT_EQ(gradients.size(), 3u);
  for (const auto& [gradient, parameter] : gradients) {
    EXPECT_EQ(TypeOf(made, gradient), DType::kF32);
  }
}

// Linear in each of two operands and summed over what they share: whoever writes such an op has to
// say that it may compute in a smaller type. Its gradients follow the types of their inputs.
bool IsProduct(const OpDef& op, const OpCase& op_case) {
  if (op.rule == nullptr || op.gradient == nullptr) return false;
  const auto outputs = op.infer({op_case.attributes, op_case.inputs, {}});
  if (!outputs.ok()) return false;
  const auto rule = op.rule({op_case.attributes, op_case.inputs, *outputs});
  if (!rule.ok() || rule->linear.size() < 2) return false;
  const std::string& left = rule->input_factors[rule->linear[0][0]];
  const std::string& right = rule->input_factors[rule->linear[1][0]];
  const std::string& out = rule->output_factors[0];
  return std::any_of(left.begin(), left.end(), [&](char factor) {
    return factor >= 'A' && right.find(factor) != std::string::npos &&
           out.find(factor) == std::string::npos;
  });
}

TEST(MixedPrecisionTest, EveryProductComputesInTheSmallerType) {
  int products = 0;
  for (const OpDef* op : AllOps()) {
    const bool product = std::any_of(op->cases.begin(), op->cases.end(),
                                     [op](const OpCase& c) { return IsProduct(*op, c); });
    products += product;
    if (product) {
      EXPECT_EQ(op->computes_in, ComputesIn::kLow)
          << op->name << " is a product: expected OpDef::computes_in of ComputesIn::kLow";
    }
  }
  EXPECT_GE(products, 1);
}

}  // namespace
}  // namespace sluice
