// Reshape and transpose: the same elements, laid out anew.
#include <algorithm>
#include <utility>

#include "framework/ops/cases.h"
#include "framework/ops/inference.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/ops/reference.h"

namespace sluice {
namespace {

absl::StatusOr<Types> InferReshape(const OpCall& call) {
  RETURN_IF_ERROR(CheckCount("reshape", call, 1));
  const Shape& shape = std::get<ShapeAttributes>(call.attributes).shape;
  if (shape.NumElements() != call.inputs[0].shape.NumElements()) {
    return Mismatch("reshape", "expected ", call.inputs[0].shape.NumElements(), " elements as in ",
                    TypeText(call.inputs[0]), ", got ", shape.ToString());
  }
  return Types{{call.inputs[0].dtype, shape}};
}

// Input dimensions [in, in_end) hold the same elements as output dimensions [out, out_end).
struct Group {
  int in, in_end, out, out_end;
};

std::vector<Group> Groups(const Shape& in, const Shape& out) {
  std::vector<Group> groups;
  int i = 0, o = 0;
  while (i < in.rank() && o < out.rank()) {
    Group group = {i, i + 1, o, o + 1};
    int64_t have = in[i++], want = out[o++];
    while (have != want) {
      if (have < want) {
        have *= in[i++];
      } else {
        want *= out[o++];
      }
    }
    group.in_end = i, group.out_end = o;
    groups.push_back(group);
  }
  return groups;
}

// The outermost dimension of [begin, end) that has more than one element, or -1.
int Outermost(const Shape& shape, int begin, int end) {
  for (int d = begin; d < end; ++d) {
    if (shape[d] > 1) return d;
  }
  return -1;
}

// A split of the outermost dimension of a group is one of the group's elements in order, so it is
// the same on both sides where both cuts fall on the same elements.
absl::StatusOr<std::vector<Signature>> ReshapeSignatures(const OpCall& call, int64_t shards) {
  const Shape& in = call.inputs[0].shape;
  const Shape& out = call.outputs[0].shape;
  std::vector<Signature> signatures = {MakeSignature("", {kWhole}, {kWhole})};
  if (shards < 2) return signatures;
  const std::vector<Group> groups = in.NumElements() == 0 ? std::vector<Group>() : Groups(in, out);
  for (const Group& group : groups) {
    const int i = Outermost(in, group.in, group.in_end);
    const int o = Outermost(out, group.out, group.out_end);
    if (i < 0 || o < 0) continue;
    const bool equal_cuts = in[i] == out[o] || (in[i] % shards == 0 && out[o] % shards == 0);
    if (!equal_cuts) continue;
    // The larger index rises from group to group, and is the same for the reshape back.
    signatures.push_back(MakeSignature(std::string(1, DimFactor(std::max(i, o))), {i}, {o}));
  }
  signatures.push_back(MakeSignature("P", {kPartial}, {kPartial}));
  return signatures;
}

const Shape& Permutation(const Attributes& attributes) {
  return std::get<TransposeAttributes>(attributes).permutation;
}

bool IsPermutation(const Shape& permutation, int rank) {
  std::vector<int64_t> dims(permutation.begin(), permutation.end());
  std::sort(dims.begin(), dims.end());
  if (static_cast<int>(dims.size()) != rank) return false;
  for (int d = 0; d < rank; ++d) {
    if (dims[d] != d) return false;
  }
  return true;
}

// `forward`: output dimension d is input dimension permutation[d]; else the other way round.
absl::StatusOr<Types> InferTranspose(absl::string_view op, const OpCall& call, bool forward) {
  RETURN_IF_ERROR(CheckCount(op, call, 1));
  const TensorType& x = call.inputs[0];
  const Shape& permutation = Permutation(call.attributes);
  if (!IsPermutation(permutation, x.shape.rank())) {
    return Mismatch(op, "expected a permutation of the dimensions of ", TypeText(x), ", got ",
                    permutation.ToString());
  }
  TensorType y = x;
  for (int d = 0; d < x.shape.rank(); ++d) {
    const int p = static_cast<int>(permutation[d]);
    (forward ? y.shape[d] : y.shape[p]) = forward ? x.shape[p] : x.shape[d];
  }
  return Types{y};
}

// Both ops name a dimension by its place in the forward op's input.
absl::StatusOr<IndexRule> TransposeRule(const OpCall& call, bool forward) {
  const Shape& permutation = Permutation(call.attributes);
  std::string permuted;
  for (int64_t p : permutation) permuted += DimFactor(static_cast<int>(p));
  const std::string plain = DimFactors(permutation.rank());
  return IndexRule::Parse(
      forward ? absl::StrCat(plain, "->", permuted) : absl::StrCat(permuted, "->", plain), {{0}});
}

absl::Status ReferenceTranspose(const ReferenceCall& call, bool forward) {
  const Shape& permutation = Permutation(call.attributes);
  const ShardArray& x = call.inputs[0];
  ShardArray& y = call.outputs[0];
  ForEachIndex(y.box, [&](const Shape& index, int64_t flat) {
    Shape at = index;
    for (int d = 0; d < index.rank(); ++d) {
      const int p = static_cast<int>(permutation[d]);
      (forward ? at[p] : at[d]) = forward ? index[d] : index[p];
    }
    y.array.values[flat] = x.array.values[FlatAt(x.box, at)];
  });
  return absl::OkStatus();
}

void AddTransposeCases(OpDef* op) {
  op->cases = {{"swap", TransposeAttributes{{1, 0}}, {{DType::kF32, {5, 3}}}},
               {"rotate", TransposeAttributes{{2, 0, 1}}, {{DType::kF32, {5, 3, 4}}}},
               {"heads", TransposeAttributes{{0, 2, 1, 3}}, {{DType::kF32, {2, 5, 3, 4}}}}};
  op->large_cases = {{"", TransposeAttributes{{1, 0}}, {Wide()}}};
  op->timing = NotTimed(kMovesBytes);
}

}  // namespace

const OpDef& ReshapeOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "reshape";
    op.inputs = {{"x"}};
    op.computes_in = ComputesIn::kEither;
    op.outputs = {{"y"}};
    op.attributes = ShapeAttributes();
    op.infer = InferReshape;
    op.signatures = ReshapeSignatures;
    op.gradient = [](const Node&, absl::Span<const Tensor> inputs, absl::Span<const Tensor>,
                     absl::Span<const Tensor> dy, std::vector<Gradient>* dx) {
      (*dx)[0] = Dense(Reshape(dy[0], inputs[0].shape()));
    };
    op.cost = [](const OpCall&) { return Cost(); };
    op.reference = [](const ReferenceCall& call) {
      call.outputs[0].array.values = call.inputs[0].array.values;
      return absl::OkStatus();
    };
    op.view = true;
    op.cases = {{"merge", ShapeAttributes{{12, 5}}, {{DType::kF32, {6, 2, 5}}}},
                {"split", ShapeAttributes{{5, 6, 2}}, {{DType::kF32, {5, 12}}}},
                {"ones", ShapeAttributes{{5, 1, 3, 1}}, {{DType::kF32, {5, 3}}}},
                {"mixed", ShapeAttributes{{6, 12, 5}}, {{DType::kF32, {12, 6, 5}}}},
                {"i32", ShapeAttributes{{6}}, {{DType::kI32, {2, 3}}}}};
    op.large_cases = {{"", ShapeAttributes{{251, 301}}, {Wide()}}};
    op.timing = NotTimed("a view: no instruction and no bytes");
    return op;
  }();
  return op;
}

const OpDef& TransposeOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "transpose";
    op.inputs = {{"x"}};
    op.computes_in = ComputesIn::kEither;
    op.outputs = {{"y"}};
    op.attributes = TransposeAttributes();
    op.infer = [](const OpCall& call) { return InferTranspose("transpose", call, true); };
    op.rule = [](const OpCall& call) { return TransposeRule(call, true); };
    op.gradient = [](const Node& node, absl::Span<const Tensor>, absl::Span<const Tensor>,
                     absl::Span<const Tensor> dy, std::vector<Gradient>* dx) {
      (*dx)[0] = Dense(ApplyOne(TransposeGradientOp(), node.attributes, {dy[0]}));
    };
    op.cost = [](const OpCall& call) { return ElementwiseCost(call, 0); };
    op.reference = [](const ReferenceCall& call) { return ReferenceTranspose(call, true); };
    AddTransposeCases(&op);
    return op;
  }();
  return op;
}

const OpDef& TransposeGradientOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "transpose_gradient";
    op.inputs = {{"dy"}};
    op.computes_in = ComputesIn::kEither;
    op.outputs = {{"dx"}};
    op.attributes = TransposeAttributes();
    op.infer = [](const OpCall& call) { return InferTranspose("transpose_gradient", call, false); };
    op.rule = [](const OpCall& call) { return TransposeRule(call, false); };
    op.cost = [](const OpCall& call) { return ElementwiseCost(call, 0); };
    op.reference = [](const ReferenceCall& call) { return ReferenceTranspose(call, false); };
    AddTransposeCases(&op);
    return op;
  }();
  return op;
}

Tensor Reshape(Tensor x, const Shape& shape) {
  if (x && x.shape() == shape) return x;
  return ApplyOne(ReshapeOp(), ShapeAttributes{shape}, {x});
}

Tensor Transpose(Tensor x, const Shape& permutation) {
  return ApplyOne(TransposeOp(), TransposeAttributes{permutation}, {x});
}

}  // namespace sluice
