// Every gradient against central finite differences of the reference implementations, in f64.
#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/conformance/case_values.h"
#include "framework/graph/interpreter.h"
#include "framework/ops/all_ops.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/passes/backward.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// What is differentiated: a function of tensors, some of them variables, to one tensor.
using Function = std::function<Tensor(Graph*, const std::vector<Tensor>&)>;

// Adds loss = sum(weights * fn(inputs)) and the gradient of every float input as an output.
struct Check {
  Graph graph;
  ArrayMap feeds, variables;

  // A name for the i-th input and for its gradient.
  static std::string Name(size_t i) { return absl::StrCat("x", i); }

  absl::Status Build(const std::vector<TensorType>& types, const std::vector<Array>& values,
                     const Function& fn) {
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < types.size(); ++i) {
      const bool variable = IsFloat(types[i].dtype);
      inputs.push_back(variable ? graph.Variable(Name(i), types[i].dtype, types[i].shape, {}, "")
                                : graph.Input(Name(i), types[i].dtype, types[i].shape, ""));
      (variable ? variables : feeds)[Name(i)] = values[i];
    }
    Tensor y = fn(&graph, inputs);
    if (!graph.status().ok()) return graph.status();
    y = Cast(y, DType::kF32);
    Array weights(y.shape());
    for (size_t i = 0; i < weights.values.size(); ++i) {
      weights.values[i] = UniformDraw(99, static_cast<int64_t>(i), -1, 1);
    }
    feeds["weights"] = weights;
    const Tensor weighted = Multiply(y, graph.Input("weights", DType::kF32, y.shape(), ""));
    Shape all;
    for (int d = 0; d < y.shape().rank(); ++d) all.Append(d);
    const Tensor loss = ReduceSum(weighted, all);
    graph.Output("loss", loss);
    VariableGradients gradients;
    absl::Status status = AddBackward(&graph, loss, &gradients);
    if (!status.ok()) return status;
    Graph::Context backward;
    backward.phase = Phase::kBackward;
    graph.set_context(backward);
    for (const auto& entry : gradients) {
      const Node& node = graph.node(graph.tensor(entry.first).producer);
      graph.Output("d" + node.name, DenseOf(entry.first, entry.second));
    }
    return graph.Finish();
  }

  Tensor DenseOf(TensorId variable, const Gradient& gradient) {
    if (gradient.kind == Gradient::kDense) return gradient.tensors[0];
    const TensorType& type = graph.tensor(variable).type;
    return AddSparse(Fill(&graph, 0, type.shape, type.dtype), gradient);
  }

  absl::StatusOr<ArrayMap> Run(ArrayMap at) const {
    return Interpret(graph, feeds, &at, {kCaseSeed, kCaseStep, nullptr});
  }

  // The largest error of any gradient, relative to its largest element.
  absl::StatusOr<double> WorstError(int64_t* elements) const {
    absl::StatusOr<ArrayMap> outputs = Run(variables);
    if (!outputs.ok()) return outputs.status();
    double worst = 0;
    for (const auto& entry : variables) {
      // What the loss does not depend on has no gradient.
      const auto found = outputs->find("d" + entry.first);
      const Array gradient = found == outputs->end() ? Array(entry.second.shape) : found->second;
      double error = 0, largest = 1e-3;
      for (size_t i = 0; i < entry.second.values.size(); ++i) {
        const double h = 1e-5;
        double loss[2];
        for (int side : {0, 1}) {
          ArrayMap moved = variables;
          moved[entry.first].values[i] += side == 0 ? h : -h;
          absl::StatusOr<ArrayMap> there = Run(moved);
          if (!there.ok()) return there.status();
          loss[side] = there->at("loss").values[0];
        }
        error = std::max(error, std::abs((loss[0] - loss[1]) / (2 * h) - gradient.values[i]));
        largest = std::max(largest, std::abs(gradient.values[i]));
        ++*elements;
      }
      worst = std::max(worst, error / largest);
    }
    return worst;
  }
};

void ExpectGradient(const std::string& what, const std::vector<TensorType>& types,
                    const std::vector<Array>& values, const Function& fn, int64_t* elements) {
  Check check;
  const absl::Status built = check.Build(types, values, fn);
  ASSERT_TRUE(built.ok()) << what << ": " << built;
  const absl::StatusOr<double> worst = check.WorstError(elements);
  ASSERT_TRUE(worst.ok()) << what << ": " << worst.status();
  EXPECT_LT(*worst, 1e-7) << what;
}

TEST(GradientsTest, EveryOp) {
  int cases = 0;
  int64_t elements = 0;
  for (const OpDef* op : AllOps()) {
    if (op->gradient == nullptr) continue;
    for (const OpCase& op_case : op->cases) {
      const bool differentiable =
          std::any_of(op_case.inputs.begin(), op_case.inputs.end(),
                      [](const TensorType& type) { return IsFloat(type.dtype); });
      if (!op_case.check_gradient || !differentiable) continue;
      ++cases;
      const auto values = RunWhole(*op, op_case, /*seed=*/7);
      ASSERT_TRUE(values.ok()) << values.status();
      ExpectGradient(
          absl::StrCat(op->name, "/", op_case.name), op_case.inputs, values->inputs,
          [&](Graph* graph, const std::vector<Tensor>& inputs) {
            return graph->Add(*op, op_case.attributes, inputs)[0];
          },
          &elements);
    }
  }
  std::cout << cases << " cases, " << elements << " elements\n";
  EXPECT_GE(cases, 60);
  EXPECT_GT(elements, 3500);
}

TEST(GradientsTest, CrossEntropy) {
  const std::vector<TensorType> types = {{DType::kF32, {2, 3, 5}}, {DType::kI32, {2, 3}}};
  OpCase drawn = {"", CrossEntropyAttributes(), types, 0, 4};
  const auto values = RunWhole(CrossEntropyPickOp(), drawn, /*seed=*/7);
  ASSERT_TRUE(values.ok());
  int64_t elements = 0;
  ExpectGradient(
      "cross entropy", types, values->inputs,
      [](Graph*, const std::vector<Tensor>& in) { return SoftmaxCrossEntropy(in[0], in[1]); },
      &elements);
  ExpectGradient(
      "smoothed cross entropy", types, values->inputs,
      [](Graph*, const std::vector<Tensor>& in) { return SoftmaxCrossEntropy(in[0], in[1], 0.25); },
      &elements);
  EXPECT_EQ(elements, 60);
}

// Through the statistics, which are of x; then by statistics that are given, which have gradients
// of their own.
TEST(GradientsTest, BatchNorm) {
  const std::vector<TensorType> types = {
      {DType::kF32, {4, 3, 5}}, {DType::kF32, {5}}, {DType::kF32, {5}}};
  int64_t elements = 0;
  std::vector<Array> values;
  for (size_t i = 0; i < types.size(); ++i) {
    values.emplace_back(types[i].shape);
    for (size_t k = 0; k < values[i].values.size(); ++k) {
      values[i].values[k] = UniformDraw(static_cast<int64_t>(i), static_cast<int64_t>(k), 0.5, 2);
    }
  }
  for (const int64_t groups : {1, 2, 4}) {
    ExpectGradient(
        absl::StrCat("batch norm in ", groups, " groups"), types, values,
        [groups](Graph*, const std::vector<Tensor>& in) {
          return BatchNorm(in[0], in[1], in[2], groups, 1e-2).y;
        },
        &elements);
    ExpectGradient(
        absl::StrCat("statistics of ", groups, " groups"), types, values,
        [groups](Graph*, const std::vector<Tensor>& in) {
          const BatchNormResult result = BatchNorm(in[0], in[1], in[2], groups);
          return result.variance * result.mean;
        },
        &elements);
  }
  ExpectGradient(
      "by given statistics", types, values,
      [](Graph*, const std::vector<Tensor>& in) {
        return BatchNormBy(in[0], in[1], in[2], in[2] * in[2], in[1], 1e-2);
      },
      &elements);
  EXPECT_EQ(elements, 7 * 70);
}

// The functions of ops.h that are more than one op, and one tensor read several times.
TEST(GradientsTest, Compositions) {
  const std::vector<TensorType> types = {{DType::kF32, {4, 3, 5}}, {DType::kF32, {4, 1, 5}}};
  OpCase drawn = {"", NoAttributes(), types, 0.5, 2};
  const auto values = RunWhole(AddOp(), drawn, /*seed=*/7);
  ASSERT_TRUE(values.ok());
  int64_t elements = 0;
  const auto expect = [&](const char* what, const Function& fn) {
    ExpectGradient(what, types, values->inputs, fn, &elements);
  };
  using In = std::vector<Tensor>;
  expect("read twice", [](Graph*, const In& in) { return in[0] * in[0] + in[0] / in[1]; });
  expect("read thrice", [](Graph*, const In& in) { return AddN({in[0], in[0], in[0] * in[1]}); });
  expect("mean of squares", [](Graph*, const In& in) { return Mean(in[0] * in[0]) + Mean(in[1]); });
  expect("norm", [](Graph*, const In& in) { return Sqrt(SumSquares(in[0] - in[1])); });
  expect("attention", [](Graph*, const In& in) {
    const Tensor q = Reshape(in[0], {2, 3, 2, 5});
    return CausalAttention(q, Scale(q, 0.3), q + Reshape(in[1], {2, 1, 2, 5}));
  });
  expect("attention that drops", [](Graph*, const In& in) {
    const Tensor q = Reshape(in[0], {2, 3, 2, 5});
    return CausalAttention(q, Scale(q, 0.3), q + Reshape(in[1], {2, 1, 2, 5}), 0.3);
  });
  expect("slices", [](Graph*, const In& in) {
    const Tensor right = SliceDim(in[0], 2, 2, 5);
    return Concat({Transpose(right, {0, 2, 1}), Transpose(SliceDim(in[0], 2, 0, 2), {0, 2, 1})}, 1);
  });
  EXPECT_GT(elements, 400);
}

// A table that a product and a look-up share, as GPT's is.
TEST(GradientsTest, TiedTable) {
  const std::vector<TensorType> types = {{DType::kF32, {5, 3}}, {DType::kI32, {2, 4}}};
  OpCase drawn = {"", NoAttributes(), types, 0, 4};
  const auto values = RunWhole(EmbeddingOp(), drawn, /*seed=*/7);
  ASSERT_TRUE(values.ok());
  int64_t elements = 0;
  ExpectGradient(
      "tied table", types, values->inputs,
      [](Graph*, const std::vector<Tensor>& in) {
        const Tensor x = Scale(Embedding(in[0], in[1]), 0.5);
        return SoftmaxCrossEntropy(MatMul(x, in[0], false, true), in[1]);
      },
      &elements);
  EXPECT_EQ(elements, 15);
}

TEST(GradientsTest, AWrongGradientIsSeen) {
  static OpDef gelu = GeluOp();
  gelu.gradient = [](const Node&, absl::Span<const Tensor>, absl::Span<const Tensor>,
                     absl::Span<const Tensor> dy, std::vector<Gradient>* dx) {
    (*dx)[0] = Gradient{Gradient::kDense, {dy[0]}};
  };
  const auto values = RunWhole(gelu, gelu.cases[0], /*seed=*/7);
  ASSERT_TRUE(values.ok());
  Check check;
  ASSERT_TRUE(check
                  .Build(gelu.cases[0].inputs, values->inputs,
                         [](Graph* graph, const std::vector<Tensor>& inputs) {
                           return graph->Add(gelu, NoAttributes(), inputs)[0];
                         })
                  .ok());
  int64_t elements = 0;
  const auto worst = check.WorstError(&elements);
  ASSERT_TRUE(worst.ok());
  EXPECT_GT(*worst, 1e-2);
}

}  // namespace
}  // namespace sluice
