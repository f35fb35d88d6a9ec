// Ops that only make, copy or repeat elements: fill, slice, pad, concat, cast, broadcast. Those
// that lay them out anew are in layout.cc. The factor of a dimension is that of the output's.
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/ops/cases.h"
#include "framework/ops/inference.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/ops/reference.h"

namespace sluice {
namespace {

// Factors of `shape`, where that of `dim` has a capital letter: it cannot be split.
std::string FactorsBut(int rank, int64_t dim, char instead) {
  std::string factors = DimFactors(rank);
  factors[dim] = instead;
  return factors;
}

absl::StatusOr<IndexRule> RuleBut(const OpCall& call, int64_t dim) {
  const int rank = call.inputs[0].shape.rank();
  return IndexRule::Parse(
      absl::StrCat(FactorsBut(rank, dim, 'X'), "->", FactorsBut(rank, dim, 'Y')), {{0}});
}

const SliceAttributes& Range1(const Attributes& attributes) {
  return std::get<SliceAttributes>(attributes);
}

absl::StatusOr<Types> InferSlice(const OpCall& call) {
  RETURN_IF_ERROR(CheckCount("slice", call, 1));
  const SliceAttributes& a = Range1(call.attributes);
  TensorType type = call.inputs[0];
  RETURN_IF_ERROR(CheckDim("slice", a.dim, type.shape));
  const int dim = static_cast<int>(a.dim);
  if (a.begin < 0 || a.begin >= a.end || a.end > type.shape[dim]) {
    return Mismatch("slice", "expected a range within dimension ", a.dim, " of ", TypeText(type),
                    ", got [", a.begin, ",", a.end, ")");
  }
  type.shape[dim] = a.end - a.begin;
  return Types{type};
}

absl::StatusOr<Types> InferPad(const OpCall& call) {
  RETURN_IF_ERROR(CheckCount("pad", call, 1));
  const SliceAttributes& a = Range1(call.attributes);
  TensorType type = call.inputs[0];
  RETURN_IF_ERROR(CheckDim("pad", a.dim, type.shape));
  const int dim = static_cast<int>(a.dim);
  if (a.begin < 0 || a.end - a.begin != type.shape[dim] || a.end > a.whole) {
    return Mismatch("pad", "expected ", type.shape[dim], " elements of dimension ", a.dim,
                    " within ", a.whole, ", got [", a.begin, ",", a.end, ")");
  }
  type.shape[dim] = a.whole;
  return Types{type};
}

// Copies between a narrow shard and the range [begin, ..) of a wide one along `dim`.
void CopyNarrow(const Box& narrow, const Box& wide, int dim, int64_t begin,
                const std::function<void(int64_t narrow, int64_t wide)>& copy) {
  ForEachIndex(narrow, [&](const Shape& index, int64_t flat) {
    Shape at = index;
    at[dim] += begin;
    copy(flat, FlatAt(wide, at));
  });
}

absl::StatusOr<Types> InferConcat(const OpCall& call) {
  if (call.inputs.empty()) return Mismatch("concat", "expected at least one part, got none");
  const int64_t dim = std::get<ConcatAttributes>(call.attributes).dim;
  TensorType type = call.inputs[0];
  RETURN_IF_ERROR(CheckDim("concat", dim, type.shape));
  const int d = static_cast<int>(dim);
  int64_t extent = 0;
  for (const TensorType& part : call.inputs) {
    TensorType like = type;
    if (part.shape.rank() == like.shape.rank()) like.shape[d] = part.shape[d];
    RETURN_IF_ERROR(CheckType("concat", "every part (but for the dimension)", like, part));
    extent += part.shape[d];
  }
  type.shape[d] = extent;
  return Types{type};
}

absl::StatusOr<std::vector<Signature>> ConcatSignatures(const OpCall& call, int64_t shards) {
  const int n = static_cast<int>(call.inputs.size());
  std::vector<Signature> signatures = {MakeSignature("", std::vector<int>(n, kWhole), {kWhole})};
  if (shards < 2) return signatures;
  const Shape& shape = call.outputs[0].shape;
  for (int d = 0; d < shape.rank(); ++d) {
    if (d == std::get<ConcatAttributes>(call.attributes).dim || shape[d] < 2) continue;
    signatures.push_back(MakeSignature(std::string(1, DimFactor(d)), std::vector<int>(n, d), {d}));
  }
  signatures.push_back(MakeSignature("P", std::vector<int>(n, kPartial), {kPartial}));
  return signatures;
}

void ConcatGradient(const Node& node, absl::Span<const Tensor> inputs, absl::Span<const Tensor>,
                    absl::Span<const Tensor> dy, std::vector<Gradient>* dx) {
  const int dim = static_cast<int>(std::get<ConcatAttributes>(node.attributes).dim);
  int64_t begin = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int64_t end = begin + inputs[i].shape()[dim];
    (*dx)[i] = Dense(SliceDim(dy[0], dim, begin, end));
    begin = end;
  }
}

absl::Status ReferenceConcat(const ReferenceCall& call) {
  const int dim = static_cast<int>(std::get<ConcatAttributes>(call.attributes).dim);
  ShardArray& y = call.outputs[0];
  int64_t begin = 0;
  for (const ShardArray& shard : call.inputs) {
    CopyNarrow(shard.box, y.box, dim, begin, [&](int64_t narrow, int64_t wide) {
      y.array.values[wide] = shard.array.values[narrow];
    });
    begin += shard.logical.shape[dim];
  }
  return absl::OkStatus();
}

absl::StatusOr<Types> InferBroadcast(const OpCall& call) {
  RETURN_IF_ERROR(CheckCount("broadcast", call, 1));
  const Shape& from = call.inputs[0].shape;
  const Shape& to = std::get<ShapeAttributes>(call.attributes).shape;
  const int missing = to.rank() - from.rank();
  bool fits = missing >= 0;
  for (int d = 0; fits && d < from.rank(); ++d) {
    fits = from[d] == 1 || from[d] == to[d + missing];
  }
  if (!fits) {
    return Mismatch("broadcast", "expected extents that are equal or 1, from the right, got ",
                    TypeText(call.inputs[0]), " to ", to.ToString());
  }
  return Types{{call.inputs[0].dtype, to}};
}

absl::StatusOr<IndexRule> BroadcastRule(const OpCall& call) {
  const Shape& from = call.inputs[0].shape;
  const Shape& to = call.outputs[0].shape;
  const int missing = to.rank() - from.rank();
  std::string term;
  for (int d = 0; d < from.rank(); ++d) {
    term += from[d] == 1 && to[d + missing] != 1 ? '1' : DimFactor(d + missing);
  }
  return IndexRule::Parse(absl::StrCat(term, "->", DimFactors(to.rank())), {{0}});
}

absl::Status ReferenceBroadcast(const ReferenceCall& call) {
  const ShardArray& x = call.inputs[0];
  ShardArray& y = call.outputs[0];
  const int missing = y.logical.shape.rank() - x.logical.shape.rank();
  ForEachIndex(y.box, [&](const Shape& index, int64_t flat) {
    Shape at;
    for (int d = 0; d < x.logical.shape.rank(); ++d) {
      at.Append(x.logical.shape[d] == 1 ? 0 : index[d + missing]);
    }
    y.array.values[flat] = x.array.values[FlatAt(x.box, at)];
  });
  return absl::OkStatus();
}

}  // namespace

const OpDef& FillOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "fill";
    op.outputs = {{"y"}};
    op.attributes = FillAttributes();
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("fill", call, 0));
      const FillAttributes& a = std::get<FillAttributes>(call.attributes);
      return Types{{a.dtype, a.shape}};
    };
    op.rule = [](const OpCall& call) {
      return IndexRule::Parse(absl::StrCat("->", DimFactors(call.outputs[0].shape.rank())));
    };
    op.cost = [](const OpCall& call) { return ElementwiseCost(call, 0); };
    op.reference = [](const ReferenceCall& call) {
      for (double& value : call.outputs[0].array.values) {
        value = std::get<FillAttributes>(call.attributes).value;
      }
      return absl::OkStatus();
    };
    op.cases = {{"matrix", FillAttributes{1.5, {5, 3}}, {}},
                {"scalar", FillAttributes{-2, {}}, {}}};
    op.large_cases = {{"", FillAttributes{1.5, {301, 251}}, {}}};
    op.timing = {Elements(), [](At at) { return OpCase{"", FillAttributes{1, {at[0]}}, {}}; }};
    return op;
  }();
  return op;
}

const OpDef& SliceOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "slice";
    op.inputs = {{"x"}};
    op.computes_in = ComputesIn::kEither;
    op.outputs = {{"y"}};
    op.attributes = SliceAttributes();
    op.infer = InferSlice;
    op.rule = [](const OpCall& call) { return RuleBut(call, Range1(call.attributes).dim); };
    op.gradient = [](const Node& node, absl::Span<const Tensor> inputs, absl::Span<const Tensor>,
                     absl::Span<const Tensor> dy, std::vector<Gradient>* dx) {
      const SliceAttributes& a = Range1(node.attributes);
      const int dim = static_cast<int>(a.dim);
      (*dx)[0] = Dense(PadDim(dy[0], dim, a.begin, inputs[0].shape()[dim]));
    };
    op.cost = [](const OpCall& call) {
      return Cost{0, 2 * BytesOf(call.outputs), 0, {2 * BytesOf(call.outputs)}};
    };
    op.reference = [](const ReferenceCall& call) {
      const SliceAttributes& a = Range1(call.attributes);
      const ShardArray& x = call.inputs[0];
      ShardArray& y = call.outputs[0];
      CopyNarrow(y.box, x.box, static_cast<int>(a.dim), a.begin, [&](int64_t narrow, int64_t wide) {
        y.array.values[narrow] = x.array.values[wide];
      });
      return absl::OkStatus();
    };
    const TensorType x = {DType::kF32, {5, 7, 3}};
    op.cases = {{"first", SliceAttributes{0, 1, 4, 5}, {x}},
                {"middle", SliceAttributes{1, 2, 7, 7}, {x}},
                {"last", SliceAttributes{2, 0, 2, 3}, {x}}};
    op.large_cases = {{"", SliceAttributes{1, 3, 250, 251}, {Wide()}}};
    op.timing = NotTimed(kMovesBytes);
    return op;
  }();
  return op;
}

const OpDef& PadOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "pad";
    op.inputs = {{"x"}};
    op.computes_in = ComputesIn::kEither;
    op.outputs = {{"y"}};
    op.attributes = SliceAttributes();
    op.infer = InferPad;
    op.rule = [](const OpCall& call) { return RuleBut(call, Range1(call.attributes).dim); };
    op.gradient = [](const Node& node, absl::Span<const Tensor>, absl::Span<const Tensor>,
                     absl::Span<const Tensor> dy, std::vector<Gradient>* dx) {
      const SliceAttributes& a = Range1(node.attributes);
      (*dx)[0] = Dense(SliceDim(dy[0], static_cast<int>(a.dim), a.begin, a.end));
    };
    op.cost = [](const OpCall& call) { return ElementwiseCost(call, 0); };
    op.reference = [](const ReferenceCall& call) {
      const SliceAttributes& a = Range1(call.attributes);
      const ShardArray& x = call.inputs[0];
      ShardArray& y = call.outputs[0];
      CopyNarrow(x.box, y.box, static_cast<int>(a.dim), a.begin, [&](int64_t narrow, int64_t wide) {
        y.array.values[wide] = x.array.values[narrow];
      });
      return absl::OkStatus();
    };
    op.cases = {{"first", SliceAttributes{0, 1, 4, 5}, {{DType::kF32, {3, 7}}}},
                {"last", SliceAttributes{1, 2, 5, 7}, {{DType::kF32, {5, 3}}}}};
    op.large_cases = {{"", SliceAttributes{1, 3, 254, 260}, {Wide()}}};
    op.timing = NotTimed(kMovesBytes);
    return op;
  }();
  return op;
}

const OpDef& ConcatOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "concat";
    op.inputs = {{"parts", /*updates=*/false, /*variadic=*/true}};
    op.computes_in = ComputesIn::kEither;
    op.outputs = {{"y"}};
    op.attributes = ConcatAttributes();
    op.infer = InferConcat;
    op.signatures = ConcatSignatures;
    op.gradient = ConcatGradient;
    op.cost = [](const OpCall& call) { return ElementwiseCost(call, 0); };
    op.reference = ReferenceConcat;
    op.cases = {{"inner", ConcatAttributes{1}, {{DType::kF32, {5, 3}}, {DType::kF32, {5, 4}}}},
                {"outer",
                 ConcatAttributes{0},
                 {{DType::kF32, {2, 4}}, {DType::kF32, {3, 4}}, {DType::kF32, {1, 4}}}}};
    op.large_cases = {{"", ConcatAttributes{1}, {Wide(), F32({301, 70})}}};
    op.timing = NotTimed(kMovesBytes);
    return op;
  }();
  return op;
}

const OpDef& CastOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "cast";
    op.inputs = {{"x"}};
    op.computes_in = ComputesIn::kEither;
    op.outputs = {{"y"}};
    op.attributes = CastAttributes();
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("cast", call, 1));
      return Types{{std::get<CastAttributes>(call.attributes).dtype, call.inputs[0].shape}};
    };
    op.rule = [](const OpCall& call) {
      // Truncation to an integer is not linear.
      const bool linear = IsFloat(call.inputs[0].dtype) == IsFloat(call.outputs[0].dtype);
      return IndexRule::Parse("...->...", linear ? std::vector<std::vector<int>>{{0}}
                                                 : std::vector<std::vector<int>>{});
    };
    op.gradient = [](const Node&, absl::Span<const Tensor> inputs, absl::Span<const Tensor>,
                     absl::Span<const Tensor> dy, std::vector<Gradient>* dx) {
      if (IsFloat(inputs[0].dtype())) (*dx)[0] = Dense(Cast(dy[0], inputs[0].dtype()));
    };
    op.cost = [](const OpCall& call) { return ElementwiseCost(call, 0); };
    op.reference = [](const ReferenceCall& call) {
      const bool integer = call.outputs[0].logical.dtype == DType::kI32;
      return ReferenceMap(call, [integer](double x) { return integer ? std::trunc(x) : x; });
    };
    OpCase rounded = {"bf16", CastAttributes{DType::kBF16}, {{DType::kF32, {5, 3}}}};
    rounded.tolerance = 1e-2;
    OpCase whole = {"i32", CastAttributes{DType::kI32}, {{DType::kF32, {5, 3}}}};
    whole.check_gradient = false;
    op.cases = {rounded,
                {"f32", CastAttributes{DType::kF32}, {{DType::kBF16, {5, 3}}}, -2, 2, 1e-2},
                whole};
    op.large_cases = {{"", CastAttributes{DType::kBF16}, {Wide()}, -2, 2, 1e-2}};
    op.timing = NotTimed(kMovesBytes);
    return op;
  }();
  return op;
}

const OpDef& BroadcastOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "broadcast";
    op.inputs = {{"x"}};
    op.computes_in = ComputesIn::kEither;
    op.outputs = {{"y"}};
    op.attributes = ShapeAttributes();
    op.infer = InferBroadcast;
    op.rule = BroadcastRule;
    op.gradient = [](const Node&, absl::Span<const Tensor> inputs, absl::Span<const Tensor>,
                     absl::Span<const Tensor> dy, std::vector<Gradient>* dx) {
      (*dx)[0] = Dense(ReduceTo(dy[0], inputs[0].shape()));
    };
    op.cost = [](const OpCall& call) { return ElementwiseCost(call, 0); };
    op.reference = ReferenceBroadcast;
    op.cases = {{"scalar", ShapeAttributes{{5, 3}}, {{DType::kF32, {}}}},
                {"row", ShapeAttributes{{5, 3, 4}}, {{DType::kF32, {4}}}},
                {"ones", ShapeAttributes{{5, 3, 4}}, {{DType::kF32, {5, 1, 4}}}}};
    op.large_cases = {{"", ShapeAttributes{{301, 251}}, {F32({301, 1})}}};
    op.timing = NotTimed(kMovesBytes);
    return op;
  }();
  return op;
}

Tensor Fill(Graph* graph, double value, const Shape& shape, DType dtype) {
  std::vector<Tensor> outputs = graph->Add(FillOp(), FillAttributes{value, shape, dtype}, {});
  outputs.resize(1);
  return outputs[0];
}

Tensor SliceDim(Tensor x, int dim, int64_t begin, int64_t end) {
  if (!x) return x;
  const int64_t whole = dim >= 0 && dim < x.shape().rank() ? x.shape()[dim] : 0;
  return ApplyOne(SliceOp(), SliceAttributes{dim, begin, end, whole}, {x});
}

Tensor PadDim(Tensor x, int dim, int64_t begin, int64_t whole) {
  if (!x) return x;
  const int64_t own = dim >= 0 && dim < x.shape().rank() ? x.shape()[dim] : 0;
  return ApplyOne(PadOp(), SliceAttributes{dim, begin, begin + own, whole}, {x});
}

Tensor Concat(const std::vector<Tensor>& parts, int dim) {
  return ApplyOne(ConcatOp(), ConcatAttributes{dim}, parts);
}

Tensor Cast(Tensor x, DType dtype) {
  if (x && x.dtype() == dtype) return x;
  return ApplyOne(CastOp(), CastAttributes{dtype}, {x});
}

Tensor BroadcastTo(Tensor x, const Shape& shape) {
  if (x && x.shape() == shape) return x;
  return ApplyOne(BroadcastOp(), ShapeAttributes{shape}, {x});
}

}  // namespace sluice
