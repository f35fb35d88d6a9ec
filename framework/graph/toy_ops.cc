#include "framework/graph/toy_ops.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace sluice::toy {
namespace {

using Types = std::vector<TensorType>;

absl::StatusOr<Types> InferMatMul(const OpCall& call) {
  const bool transpose = std::get<MatMulAttributes>(call.attributes).transpose_b;
  const Shape &a = call.inputs[0].shape, &b = call.inputs[1].shape;
  if (a.rank() != 2 || b.rank() != 2 || a[1] != b[transpose ? 1 : 0]) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected [m,k] and [k,n], got ", a.ToString(), " and ", b.ToString()));
  }
  return Types{{call.inputs[0].dtype, {a[0], b[transpose ? 0 : 1]}}};
}

absl::Status ReferenceMatMul(const ReferenceCall& call) {
  const bool transpose = std::get<MatMulAttributes>(call.attributes).transpose_b;
  const Array &a = call.inputs[0].array, &b = call.inputs[1].array;
  Array& y = call.outputs[0].array;
  const int64_t rows = y.shape[0], columns = y.shape[1], inner = a.shape[1];
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      for (int64_t k = 0; k < inner; ++k) {
        y.values[i * columns + j] +=
            a.values[i * inner + k] * b.values[transpose ? j * inner + k : k * columns + j];
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Types> InferEqual(const OpCall& call) {
  if (call.inputs.empty()) return absl::InvalidArgumentError("expected at least one input, got 0");
  for (const TensorType& type : call.inputs) {
    if (type != call.inputs[0]) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected ", ToString(call.inputs[0]), ", got ", ToString(type)));
    }
  }
  return Types{call.inputs[0]};
}

absl::StatusOr<IndexRule> ElementwiseRule(const OpCall& call) {
  std::string equation = "...";
  for (size_t i = 1; i < call.inputs.size(); ++i) absl::StrAppend(&equation, ",...");
  return IndexRule::Parse(absl::StrCat(equation, "->..."));
}

}  // namespace

const OpDef& MatMulOp() {
  static const OpDef* const op = [] {
    auto* op = new OpDef();
    op->name = "matmul";
    op->inputs = {{"a"}, {"b"}};
    op->outputs = {{"y"}};
    op->attributes = MatMulAttributes{};
    op->infer = InferMatMul;
    op->rule = [](const OpCall& call) {
      const bool transpose = std::get<MatMulAttributes>(call.attributes).transpose_b;
      return IndexRule::Parse(transpose ? "mk,nk->mn" : "mk,kn->mn", {{0}, {1}});
    };
    op->reference = ReferenceMatMul;
    return op;
  }();
  return *op;
}

const OpDef& AddNOp() {
  static const OpDef* const op = [] {
    auto* op = new OpDef();
    op->name = "add_n";
    op->inputs = {{"terms", false, true}};
    op->outputs = {{"sum"}};
    op->infer = InferEqual;
    op->rule = ElementwiseRule;
    op->reference = [](const ReferenceCall& call) {
      for (const ShardArray& term : call.inputs) {
        for (size_t i = 0; i < term.array.values.size(); ++i) {
          call.outputs[0].array.values[i] += term.array.values[i];
        }
      }
      return absl::OkStatus();
    };
    return op;
  }();
  return *op;
}

const OpDef& SignsOp() {
  static const OpDef* const op = [] {
    auto* op = new OpDef();
    op->name = "signs";
    op->inputs = {{"x"}};
    op->outputs = {{"positive"}, {"negative"}};
    op->infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      return Types{call.inputs[0], call.inputs[0]};
    };
    op->rule = [](const OpCall&) { return IndexRule::Parse("...->...,..."); };
    op->reference = [](const ReferenceCall& call) {
      for (size_t i = 0; i < call.inputs[0].array.values.size(); ++i) {
        const double x = call.inputs[0].array.values[i];
        call.outputs[0].array.values[i] = std::max(x, 0.0);
        call.outputs[1].array.values[i] = std::min(x, 0.0);
      }
      return absl::OkStatus();
    };
    return op;
  }();
  return *op;
}

const OpDef& NoiseOp() {
  static const OpDef* const op = [] {
    auto* op = new OpDef();
    op->name = "noise";
    op->inputs = {{"x"}};
    op->outputs = {{"y"}};
    op->attributes = DropoutAttributes{};
    op->infer = InferEqual;
    op->rule = ElementwiseRule;
    op->random = true;
    op->reference = [](const ReferenceCall& call) {
      const int64_t key = std::get<DropoutAttributes>(call.attributes).key;
      call.outputs[0].array = call.inputs[0].array;
      for (double& value : call.outputs[0].array.values) {
        value += static_cast<double>(call.step + key % 2);
      }
      return absl::OkStatus();
    };
    return op;
  }();
  return *op;
}

const OpDef& ConstantOp() {
  static const OpDef* const op = [] {
    auto* op = new OpDef();
    op->name = "constant";
    op->outputs = {{"y"}};
    op->attributes = FillAttributes{};
    op->infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      const auto& fill = std::get<FillAttributes>(call.attributes);
      return Types{{fill.dtype, fill.shape}};
    };
    op->rule = [](const OpCall&) { return IndexRule::Parse("->..."); };
    op->reference = [](const ReferenceCall& call) {
      for (double& value : call.outputs[0].array.values) {
        value = std::get<FillAttributes>(call.attributes).value;
      }
      return absl::OkStatus();
    };
    return op;
  }();
  return *op;
}

const OpDef& DescendOp() {
  static const OpDef* const op = [] {
    auto* op = new OpDef();
    op->name = "descend";
    op->inputs = {{"variable", true}, {"gradient"}};
    op->attributes = ScaleAttributes{};
    op->infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      const absl::StatusOr<Types> equal = InferEqual(call);
      if (!equal.ok()) return equal;
      return Types{};
    };
    op->rule = [](const OpCall&) { return IndexRule::Parse("...,...->"); };
    op->reference = [](const ReferenceCall& call) {
      for (size_t i = 0; i < call.inputs[0].array.values.size(); ++i) {
        call.inputs[0].array.values[i] -=
            std::get<ScaleAttributes>(call.attributes).factor * call.inputs[1].array.values[i];
      }
      return absl::OkStatus();
    };
    return op;
  }();
  return *op;
}

std::vector<const OpDef*> AllOps() {
  return {&MatMulOp(), &AddNOp(), &SignsOp(), &NoiseOp(), &ConstantOp(), &DescendOp()};
}

namespace {
Graph* GraphOf(Tensor a, Tensor b) { return a ? a.graph() : b.graph(); }
}  // namespace

Tensor MatMul(Tensor a, Tensor b, bool transpose_b) {
  Graph* graph = GraphOf(a, b);
  if (graph == nullptr) return Tensor();
  return graph->Add(MatMulOp(), MatMulAttributes{false, transpose_b}, {a, b})[0];
}

Tensor Add(Tensor a, Tensor b) {
  Graph* graph = GraphOf(a, b);
  if (graph == nullptr) return Tensor();
  return graph->Add(AddNOp(), NoAttributes{}, {a, b})[0];
}

void Descend(Tensor variable, Tensor gradient, double factor) {
  if (variable) variable.graph()->Add(DescendOp(), ScaleAttributes{factor}, {variable, gradient});
}

}  // namespace sluice::toy
