#include "framework/passes/backward.h"

#include <algorithm>
#include <cmath>

#include "framework/graph/interpreter.h"
#include "framework/graph/text.h"
#include "framework/graph/verify.h"
#include "framework/ops/all_ops.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Node& ProducerOf(const Graph& graph, TensorId id) {
  return graph.node(graph.tensor(id).producer);
}

Tensor Weight(Graph* graph, absl::string_view name, const Shape& shape, int32_t stage = -1) {
  return graph->Variable(name, DType::kF64, shape, {"normal", 0.7}, "", stage);
}

// The dense form of a gradient, as an output that bears the variable's name.
void OutputGradients(Graph* graph, const VariableGradients& gradients) {
  Graph::Context context;
  context.phase = Phase::kUpdate;
  graph->set_context(context);
  for (const auto& entry : gradients) {
    const Node variable = ProducerOf(*graph, entry.first);
    Tensor dense = entry.second.tensors[0];
    if (entry.second.kind == Gradient::kSparse) {
      const TensorType type = graph->tensor(entry.first).type;
      dense = AddSparse(Fill(graph, 0, type.shape, type.dtype), entry.second);
    }
    graph->Output("d " + variable.name, dense);
  }
}

// Compares every gradient, element by element, with central differences of the output "loss".
void ExpectFiniteDifferences(Graph* graph, Tensor loss, const ArrayMap& feeds,
                             VariableGradients* gradients) {
  const absl::Status status = AddBackward(graph, loss, gradients);
  ASSERT_TRUE(status.ok()) << status;
  graph->Output("loss", loss);
  OutputGradients(graph, *gradients);
  ASSERT_TRUE(graph->Finish().ok()) << graph->status();
  ArrayMap variables = InitialVariables(*graph, 1);
  InterpretOptions options;
  options.seed = 5;
  const auto loss_of = [&](ArrayMap values) {
    return Interpret(*graph, feeds, &values, options)->at("loss").values[0];
  };
  const auto outputs = Interpret(*graph, feeds, &variables, options);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  double largest = 0;
  for (const auto& entry : *gradients) {
    const std::string& name = ProducerOf(*graph, entry.first).name;
    const Array& gradient = outputs->at("d " + name);
    for (size_t i = 0; i < gradient.values.size(); ++i) {
      constexpr double kStep = 1e-5;
      ArrayMap up = variables, down = variables;
      up[name].values[i] += kStep;
      down[name].values[i] -= kStep;
      const double expected = (loss_of(up) - loss_of(down)) / (2 * kStep);
      EXPECT_NEAR(gradient.values[i], expected, 1e-7) << name << " at " << i;
      largest = std::max(largest, std::abs(expected));
    }
  }
  EXPECT_GT(largest, 1e-3) << "nothing was tested";
}

Array Numbers(const Shape& shape, double scale) {
  Array array(shape);
  for (size_t i = 0; i < array.values.size(); ++i) {
    array.values[i] = scale * std::sin(1.7 * static_cast<double>(i) + 0.3);
  }
  return array;
}
Array Ids(const Shape& shape, int rows) {
  Array array(shape);
  for (size_t i = 0; i < array.values.size(); ++i) array.values[i] = (i * 5 + 1) % rows;
  return array;
}

TEST(Backward, MlpEqualsFiniteDifferencesAndKnowsItsForwardNodes) {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF64, {4, 3}, "data:S0");
  const Tensor w1 = Weight(&graph, "l1/w", {3, 5}, 0), b1 = Weight(&graph, "l1/b", {5}, 0);
  const Tensor w2 = Weight(&graph, "l2/w", {5, 2}, 1), b2 = Weight(&graph, "l2/b", {2}, 1);
  const Tensor h = Gelu(MatMul(x, w1) + b1);
  const Tensor y = MatMul(h, w2) + b2;
  const Tensor loss = Mean(y * y);
  Weight(&graph, "unused", {2});
  VariableGradients gradients;
  ExpectFiniteDifferences(&graph, loss, {{"x", Numbers({4, 3}, 1)}}, &gradients);

  ASSERT_EQ(gradients.size(), 4u);
  std::vector<TensorId> order;
  for (const auto& entry : gradients) {
    order.push_back(entry.first);
    EXPECT_EQ(entry.second.kind, Gradient::kDense);
    const TensorInfo& info = graph.tensor(entry.second.tensors[0].id());
    EXPECT_EQ(info.role, Role::kGradient);
    EXPECT_EQ(info.of, entry.first);
  }
  EXPECT_THAT(order, ElementsAre(w1.id(), b1.id(), w2.id(), b2.id()));
  EXPECT_EQ(graph.TensorsOf(Role::kGradient).size(), 4u);
  int backward = 0;
  for (const Node& node : graph.nodes()) {
    if (node.phase != Phase::kBackward) continue;
    ++backward;
    ASSERT_GE(node.forward, 0) << node.name;
    EXPECT_EQ(node.stage, graph.node(node.forward).stage) << node.name;
    EXPECT_THAT(node.name, HasSubstr("/backward"));
    // The first matmul gives the gradient of its weight, none of the input.
    if (node.forward == ProducerOf(graph, h.id()).id || node.outputs.empty()) continue;
    for (TensorId output : node.outputs) {
      EXPECT_FALSE(node.inputs.size() == 2 && node.inputs[1] == w1.id())
          << node.name << " computes the gradient of x: %" << output;
    }
  }
  EXPECT_GT(backward, 6);
  const auto parsed = ParseGraph(PrintGraph(graph), AllOps());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(PrintGraph(**parsed), PrintGraph(graph));
}

TEST(Backward, ATableTiedAcrossStagesIsSummedAtItsOwn) {
  Graph graph;
  const Tensor ids = graph.Input("ids", DType::kI32, {2, 3}, "data:S0");
  const Tensor labels = graph.Input("labels", DType::kI32, {2, 3}, "data:S0");
  const Tensor table = Weight(&graph, "wte", {7, 4}, 0);
  const Tensor h = MatMul(Embedding(table, ids), Weight(&graph, "h1/w", {4, 4}, 1));
  const Tensor loss = Mean(SoftmaxCrossEntropy(MatMul(h, table, false, true), labels));
  VariableGradients gradients;
  ExpectFiniteDifferences(&graph, loss, {{"ids", Ids({2, 3}, 7)}, {"labels", Ids({2, 3}, 5)}},
                          &gradients);
  ASSERT_EQ(gradients.size(), 2u);
  ASSERT_EQ(gradients[0].first, table.id());
  ASSERT_EQ(gradients[0].second.kind, Gradient::kDense);
  const Node& sum = ProducerOf(graph, gradients[0].second.tensors[0].id());
  EXPECT_EQ(sum.op->name, "add_sparse");
  EXPECT_EQ(sum.stage, 0);
  EXPECT_EQ(sum.forward, -1);
  EXPECT_EQ(sum.phase, Phase::kBackward);
  EXPECT_EQ(ProducerOf(graph, sum.inputs[0]).stage, 1);  // of the logits
  EXPECT_EQ(ProducerOf(graph, loss.id()).stage, 1);
}

TEST(Backward, GradientsOfATableStayRows) {
  Graph graph;
  const Tensor a = graph.Input("a", DType::kI32, {2, 3}, ""),
               b = graph.Input("b", DType::kI32, {4}, "");
  const Tensor table = Weight(&graph, "table", {9, 2});
  const Tensor other = Weight(&graph, "other", {9, 2});
  const Tensor one = SumSquares(Embedding(table, a)), two = SumSquares(Embedding(table, b));
  const Tensor loss = one + two + SumSquares(Embedding(other, b));
  VariableGradients gradients;
  ExpectFiniteDifferences(&graph, loss, {{"a", Ids({2, 3}, 9)}, {"b", Ids({4}, 9)}}, &gradients);
  ASSERT_EQ(gradients.size(), 2u);
  EXPECT_EQ(gradients[0].second.kind, Gradient::kSparse);
  EXPECT_EQ(gradients[0].second.tensors[0].shape(), (Shape{10}));
  EXPECT_EQ(gradients[0].second.tensors[1].shape(), (Shape{10, 2}));
  EXPECT_EQ(gradients[1].second.kind, Gradient::kSparse);
  EXPECT_TRUE(graph.TensorsOf(Role::kGradient).empty());  // of dense ones alone
}

TEST(Backward, RowsBecomeDenseWhereTheTableIsComputed) {
  Graph graph;
  const Tensor ids = graph.Input("ids", DType::kI32, {4}, "");
  const Tensor table = Weight(&graph, "table", {5, 2});
  VariableGradients gradients;
  ExpectFiniteDifferences(&graph, SumSquares(Embedding(Scale(table, 3), ids)),
                          {{"ids", Ids({4}, 5)}}, &gradients);
  ASSERT_EQ(gradients.size(), 1u);
  EXPECT_EQ(gradients[0].second.kind, Gradient::kDense);
}

TEST(Backward, SumsWhatSeveralReadersGive) {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF64, {3, 4}, "");
  const Tensor w = Weight(&graph, "w", {4, 4}), v = Weight(&graph, "v", {3, 4});
  const Tensor h = MatMul(x, w);                      // read three times
  const Tensor y = h * Gelu(h) + Softmax(h) * v + v;  // v twice
  VariableGradients gradients;
  ExpectFiniteDifferences(&graph, SumSquares(y), {{"x", Numbers({3, 4}, 1)}}, &gradients);
  ASSERT_EQ(gradients.size(), 2u);
  int sums_of_three = 0;
  for (const Node& node : graph.nodes()) {
    sums_of_three += node.op->name == "add_n" && node.inputs.size() == 3;
  }
  EXPECT_EQ(sums_of_three, 1);
}

TEST(Backward, OneTensorIsTheGradientOfOneVariable) {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF64, {3}, "");
  const Tensor sum = Weight(&graph, "a", {3}) + Weight(&graph, "b", {3});
  VariableGradients gradients;
  ExpectFiniteDifferences(&graph, SumSquares(sum * x), {{"x", Numbers({3}, 1)}}, &gradients);
  ASSERT_EQ(gradients.size(), 2u);
  EXPECT_NE(gradients[0].second.tensors[0].id(), gradients[1].second.tensors[0].id());
  EXPECT_EQ(graph.TensorsOf(Role::kGradient).size(), 2u);
}

TEST(Backward, DropoutDrawsTheSameMaskAgain) {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF64, {6, 4}, "");
  const Tensor y = Dropout(MatMul(x, Weight(&graph, "w", {4, 8})), 0.4);
  VariableGradients gradients;
  ExpectFiniteDifferences(&graph, SumSquares(y), {{"x", Numbers({6, 4}, 1)}}, &gradients);
}

TEST(Backward, ATransformerBlockEqualsFiniteDifferences) {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF64, {2, 3, 4}, "");
  const Tensor gamma = Weight(&graph, "n/gamma", {4}), beta = Weight(&graph, "n/beta", {4});
  const Tensor n = LayerNorm(x + Weight(&graph, "wpe", {3, 4}), gamma, beta);
  const auto head = [&](const char* name) {
    return Reshape(MatMul(n, Weight(&graph, name, {4, 4})), {2, 3, 2, 2});
  };
  const Tensor a = CausalAttention(head("q"), head("k"), head("v"));
  const Tensor y = x + MatMul(Reshape(a, {2, 3, 4}), Weight(&graph, "o", {4, 4}));
  VariableGradients gradients;
  ExpectFiniteDifferences(&graph, Mean(y * y * y), {{"x", Numbers({2, 3, 4}, 1)}}, &gradients);
  EXPECT_EQ(gradients.size(), 7u);
}

TEST(Backward, RefusesWhatHasNoGradient) {
  Graph graph;
  const Tensor x = graph.Input("x", DType::kF32, {3}, "");
  const Tensor ids = graph.Input("ids", DType::kI32, {3}, "");
  const Tensor loss = SumSquares(x);
  VariableGradients gradients;
  EXPECT_THAT(std::string(AddBackward(&graph, loss, &gradients).message()),
              HasSubstr("the loss sum_squares depends on no variable"));
  EXPECT_THAT(std::string(AddBackward(&graph, ids, &gradients).message()),
              HasSubstr("of a float type"));
  EXPECT_FALSE(AddBackward(&graph, Tensor(), &gradients).ok());
  EXPECT_TRUE(graph.status().ok());
  MatMul(x, x);
  EXPECT_EQ(AddBackward(&graph, loss, &gradients), graph.status());

  Graph alone;
  const Tensor labels = alone.Input("labels", DType::kI32, {3}, "");
  const Tensor logits = Weight(&alone, "logits", {3, 4});
  const Tensor picked =
      alone.Add(CrossEntropyPickOp(), CrossEntropyAttributes(), {logits, labels})[0];
  EXPECT_THAT(std::string(AddBackward(&alone, Mean(picked), &gradients).message()),
              HasSubstr("has a gradient only as a part of a cross entropy"));
}

}  // namespace
}  // namespace sluice
