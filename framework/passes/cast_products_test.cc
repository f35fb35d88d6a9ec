// Products are cast, nothing else is, and no product of the catalogue is forgotten.
#include "framework/passes/cast_products.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "framework/ops/all_ops.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(CastProductsTest, ProductsReadAndWriteTheSmallerType) {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF32, {4, 3}, "");
  const Tensor w = graph.Variable("w", DType::kF32, {3, 5}, {}, "");
  graph.Output("y", Gelu(MatMul(x, w)));
  ASSERT_TRUE(graph.Finish().ok());
  const auto cast = CastProducts(DType::kBF16).run(graph);
  ASSERT_TRUE(cast.ok()) << cast.status();
  int products = 0;
  for (const Node& node : (*cast)->nodes()) {
    if (node.op == &MatMulOp()) {
      ++products;
      for (TensorId id : {node.inputs[0], node.inputs[1], node.outputs[0]}) {
        EXPECT_EQ((*cast)->tensor(id).type.dtype, DType::kBF16);
      }
    }
    if (node.op == &GeluOp()) {
      EXPECT_EQ((*cast)->tensor(node.inputs[0]).type.dtype, DType::kF32);
    }
  }
  EXPECT_EQ(products, 1);
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

TEST(CastProductsTest, EveryProductComputesInTheSmallerType) {
  int products = 0;
  for (const OpDef* op : AllOps()) {
    const bool product = std::any_of(op->cases.begin(), op->cases.end(),
                                     [op](const OpCase& c) { return IsProduct(*op, c); });
    products += product;
    EXPECT_EQ(op->computes_in == ComputesIn::kLow, product)
        << op->name << (product ? " is a product: expected" : " is no product: expected no")
        << " OpDef::computes_in of ComputesIn::kLow";
  }
  EXPECT_GE(products, 1);
}

}  // namespace
}  // namespace sluice
