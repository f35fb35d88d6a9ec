// How a random graph uses an op of which it knows the OpDef alone. A case says which operands there
// are, the index rule which of their dimensions go together: so x can stand for one of them, or lie
// beside the result, and the other operands are made of extents that suit it.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/ops/ops.h"
#include "framework/testing/random_graph_builder.h"
#include "framework/testing/resized_case.h"

namespace sluice {
namespace {

constexpr int64_t kMostElements = 2048;
// Rows that are reduced as a whole have at least as many elements: few values that are normalized
// have equal magnitudes, and lie on the kinks of what comes after.
constexpr int64_t kFewestOfARow = 3;

bool HasIds(const OpCase& op_case) {
  return std::any_of(op_case.inputs.begin(), op_case.inputs.end(),
                     [](const TensorType& type) { return type.dtype == DType::kI32; });
}

// Ids are in [low, high] as well, and say nothing of the floats beside them.
bool IsOfPositives(const OpCase& op_case) { return op_case.low > 0 && !HasIds(op_case); }

}  // namespace

Tensor RandomGraphBuilder::GrowOp(const OpDef& op, Tensor x) {
  if (!IsMatrixLike(x) || op.cases.empty()) return Tensor();
  const size_t first = Below(static_cast<int64_t>(op.cases.size()));
  for (size_t i = 0; i < op.cases.size(); ++i) {
    OpCase op_case = op.cases[(first + i) % op.cases.size()];
    if (!op_case.check_gradient) continue;
    for (TensorType& type : op_case.inputs) {
      if (type.dtype == DType::kF32) type.dtype = dtype_;
    }
    // The graph names the draw of a random op.
    if (int64_t* key = RandomKeyOf(&op_case.attributes)) *key = 0;
    const size_t joins = op_case.inputs.size() + 1;
    const size_t first_join = Below(static_cast<int64_t>(joins));
    for (size_t j = 0; j < joins; ++j) {
      const auto call = Fit(op, op_case, x.shape(), (first_join + j) % joins);
      if (call) return Place(op, *call, x);
    }
    if (x.shape()[0] != batch_ || op_case.inputs.empty() || HasIds(op_case)) continue;
    const Shape& wanted = op_case.inputs[0].shape;
    if (wanted.rank() < 2 || wanted.rank() == x.shape().rank()) continue;
    Shape shape = wanted;
    shape[0] = batch_;
    const auto call = Fit(op, op_case, shape, 0);
    if (call) return Place(op, *call, Project(x, shape));
  }
  return Tensor();
}

std::optional<RandomGraphBuilder::Call> RandomGraphBuilder::Fit(const OpDef& op,
                                                                const OpCase& op_case,
                                                                const Shape& x, size_t join) {
  const bool ids = HasIds(op_case), beside = join == op_case.inputs.size();
  // What ids may be is tied to the extents of the tables, and lengths to that of the rows, that
  // they look into: extents of an input alone and of whole rows stay as the case has them.
  if (!beside && (ids || op_case.inputs[join].dtype != dtype_)) return std::nullopt;
  const auto factors = FactorsOf(op, op_case);
  if (!factors.ok()) return std::nullopt;
  const std::vector<std::string>& own = beside ? factors->outputs[0] : factors->inputs[join];
  if (static_cast<int>(own.size()) != x.rank()) return std::nullopt;
  std::map<std::string, int64_t> extents;
  for (int d = 0; d < x.rank(); ++d) {
    const bool row = absl::ascii_isupper(own[d][0]);
    if (own[d] == kOneFactor ? x[d] != 1 : row && x[d] < kFewestOfARow) return std::nullopt;
    if (own[d] != kOneFactor && extents.emplace(own[d], x[d]).first->second != x[d]) {
      return std::nullopt;
    }
  }
  for (size_t i = 0; i < factors->inputs.size(); ++i) {
    const std::vector<std::string>& term = factors->inputs[i];
    for (size_t d = 0; d < term.size(); ++d) {
      if (i != join && out_->micro_batches > 1) {
        // The gradient of what is broadcast is reshaped, where the factor of the batch is lost; and
        // a micro-batch lies in one piece.
        if (term[d] == kOneFactor || (term[d] == own[0] && d > 0)) return std::nullopt;
      }
      if (!ids && absl::ascii_islower(term[d][0])) extents.emplace(term[d], Width());
      const auto row =
          ids && absl::ascii_isupper(term[d][0]) ? extents.find(term[d]) : extents.end();
      if (row != extents.end() && row->second != op_case.inputs[i].shape[d]) return std::nullopt;
    }
  }
  Call call = {Resized(op_case, *factors, extents), join, {}, own[0], *factors};
  auto outputs = op.infer({call.op_case.attributes, call.op_case.inputs, {}});
  if (!outputs.ok()) return std::nullopt;
  call.outputs = *std::move(outputs);
  const TensorType& y = call.outputs[0];
  if (y.dtype != dtype_ || y.shape.rank() < 2 || y.shape.NumElements() > kMostElements) {
    return std::nullopt;
  }
  // Later ops count on the batch being where it was.
  if (factors->outputs[0][0] != call.batch || (beside && y.shape != x)) return std::nullopt;
  return call;
}

Tensor RandomGraphBuilder::Project(Tensor x, const Shape& shape) {
  const int64_t from = x.shape().NumElements() / batch_, to = shape.NumElements() / batch_;
  return Reshape(MatMul(Reshape(x, {batch_, from}), Variable({from, to})), shape);
}

// Not far above x: squares of squares would soon be infinite.
Tensor RandomGraphBuilder::Positive(Tensor x) { return Sqrt(x * x + Fill(graph_, 1, {}, dtype_)); }

// Along each axis that splits, one signature, or none.
RandomGraphBuilder::Wish RandomGraphBuilder::Ask(const OpDef& op, const Call& call) {
  Wish wish;
  wish.inputs.resize(call.op_case.inputs.size());
  const auto add = [](const char* axis, const Sbp& sbp, std::string* annotation) {
    absl::StrAppend(annotation, annotation->empty() ? "" : " ", axis, ":", ToString(sbp));
  };
  for (const char* axis : {"data", "model"}) {
    const int64_t shards = out_->mesh.AxisSize(axis);
    if (shards < 2 || Chance(50)) continue;
    auto signatures =
        SignaturesOf(op, {call.op_case.attributes, call.op_case.inputs, call.outputs}, shards);
    if (!signatures.ok()) continue;
    std::erase_if(*signatures, [](const Signature& signature) { return signature.factor.empty(); });
    if (signatures->empty()) continue;
    const Signature& signature = (*signatures)[Below(static_cast<int64_t>(signatures->size()))];
    for (size_t i = 0; i < wish.inputs.size(); ++i) add(axis, signature.inputs[i], &wish.inputs[i]);
    add(axis, signature.outputs[0], &wish.output);
  }
  return wish;
}

// What x lies beside. A parameter is bound to what is asked of it, and what nobody asks for is left
// to the compiler. No parameter itself but made of one is what has the batch's dimension, which
// every micro-batch would read whole, and what is to arrive partial.
Tensor RandomGraphBuilder::Operand(const Call& call, size_t input, const std::string& asked) {
  const OpCase& op_case = call.op_case;
  const TensorType& type = op_case.inputs[input];
  const std::vector<std::string>& term = call.factors.inputs[input];
  const bool of_batch = std::find(term.begin(), term.end(), call.batch) != term.end();
  if (type.dtype == DType::kI32) {
    const bool fed_by_batch = of_batch && term[0] == call.batch && type.shape[0] == batch_;
    return NewInput(DType::kI32, type.shape, static_cast<int64_t>(op_case.high) + 1,
                    fed_by_batch ? "data:S0" : "");
  }
  const bool positive = IsOfPositives(op_case);
  const char* init = positive ? "ones" : "normal";
  const bool partial = absl::StrContains(asked, "P");
  if (!of_batch && !(partial && out_->micro_batches == 1)) {
    return Variable(type.shape, partial ? "" : asked, init);
  }
  if (out_->micro_batches == 1) {
    const Tensor made = Scale(Variable(type.shape, Words(type.shape, 30, false), init), 0.75);
    return partial ? made.With(asked) : made;
  }
  const Tensor made = Project(NewInput(dtype_, {batch_, 2}, 0), type.shape);
  return positive ? Positive(made) : made;
}

Tensor RandomGraphBuilder::Place(const OpDef& op, const Call& call, Tensor x) {
  const OpCase& op_case = call.op_case;
  Wish wish = Ask(op, call);
  // Or x arrives as no signature takes it, perhaps, and has to be boxed.
  if (call.join < wish.inputs.size() && Chance(20)) {
    wish.output.clear();
    for (std::string& asked : wish.inputs) asked.clear();
    wish.inputs[call.join] = Words(op_case.inputs[call.join].shape, 80, false);
  }
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < op_case.inputs.size(); ++i) {
    if (i != call.join) {
      inputs.push_back(Operand(call, i, wish.inputs[i]));
      continue;
    }
    Tensor t = IsOfPositives(op_case) ? Positive(x) : x;
    if (!wish.inputs[i].empty() && IsUnannotated(t)) t = t.With(wish.inputs[i]);
    inputs.push_back(t);
  }
  const std::vector<Tensor> outputs = graph_->Add(op, op_case.attributes, std::move(inputs));
  if (!graph_->status().ok()) return Tensor();
  const Tensor y = wish.output.empty() ? outputs[0] : outputs[0].With(wish.output);
  return call.join == op_case.inputs.size() ? x + y : y;
}

}  // namespace sluice
