// Of layer norm, with what stands around it in a residual stream.
#include <utility>

#include "framework/ops/card_op.h"
#include "framework/ops/card_ops.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/reference.h"

namespace sluice {
namespace {

constexpr char kAddLayerNorm[] = "add_layer_norm";
constexpr char kAddLayerNormCast[] = "add_layer_norm_cast";
constexpr char kAddLayerNormAndCast[] = "add_layer_norm_and_cast";
constexpr char kNormGradientCast[] = "layer_norm_gradient_cast";
constexpr char kNormGradientAdd[] = "layer_norm_gradient_add";
constexpr char kNormGradientAddCast[] = "layer_norm_gradient_add_cast";
constexpr char kNormGradientAddDropout[] = "layer_norm_gradient_add_dropout";
constexpr char kNormGradientAddCastDropout[] = "layer_norm_gradient_add_cast_dropout";
constexpr char kCastNormParameterGradient[] = "cast_layer_norm_parameter_gradient";
constexpr char kCastNormParameterGradientAndValue[] =
    "cast_layer_norm_parameter_gradient_and_value";

Attributes OfAddNorm(size_t step, const Attributes& of_all) {
  const auto& a = std::get<AddNormAttributes>(of_all);
  const Attributes of_steps[] = {DropoutAttributes{a.rate, a.key}, CastAttributes{DType::kF32},
                                 NoAttributes(), NormAttributes{a.epsilon},
                                 CastAttributes{DType::kBF16}};
  return of_steps[step];
}

// What is added may be bf16, in which it is then dropped.
const CardDefinition& AddLayerNorm() {
  static const auto& definition = *new CardDefinition{
      {{"a"}, {"b"}, {"gamma"}, {"beta"}},
      {{"y"}, {"mean"}, {"rstd"}, {"sum"}},
      {{DropoutOp, {1}}, {CastOp, {4}}, {AddOp, {0, 5}}, {LayerNormOp, {6, 2, 3}}},
      0,
      {7, 8, 9, 6},
      OfAddNorm};
  return definition;
}

// y is bf16.
const CardDefinition& AddLayerNormCast() {
  static const auto& definition = *[] {
    auto* const made = new CardDefinition(AddLayerNorm());
    made->steps.push_back({CastOp, {7}});
    made->results[0] = 10;
    return made;
  }();
  return definition;
}

// y in bf16 beside it.
const CardDefinition& AddLayerNormAndCast() {
  static const auto& definition = *[] {
    auto* const made = new CardDefinition(AddLayerNorm());
    made->outputs.push_back({"low"});
    made->steps.push_back({CastOp, {7}});
    made->results.push_back(10);
    return made;
  }();
  return definition;
}

Attributes OfNormGradientCast(size_t step, const Attributes& of_all) {
  if (step == 0) return of_all;
  return CastAttributes{DType::kBF16};
}

const CardDefinition& NormGradientCast() {
  static const auto& definition =
      *new CardDefinition{{{"dy"}, {"x"}, {"gamma"}, {"mean"}, {"rstd"}},
                          {{"dx"}, {"low"}},
                          {{LayerNormGradientOp, {0, 1, 2, 3, 4}}, {CastOp, {5}}},
                          0,
                          {5, 6},
                          OfNormGradientCast};
  return definition;
}

// Of all that make a sum and what is made of the sum, in the order of NormGradientAdd's steps and
// those behind. A sum is dropped in the type that it is cast to.
template <DType kLow>
Attributes StepOfNormGradient(size_t step, const Attributes& of_all) {
  const auto* const drops = std::get_if<AddNormAttributes>(&of_all);
  const double epsilon =
      drops != nullptr ? drops->epsilon : std::get<NormAttributes>(of_all).epsilon;
  const Attributes of_steps[] = {
      CastAttributes{DType::kF32}, NormAttributes{epsilon}, NoAttributes(), CastAttributes{kLow},
      drops != nullptr ? DropoutAttributes{drops->rate, drops->key} : DropoutAttributes()};
  return of_steps[step];
}

// dy may be bf16.
const CardDefinition& NormGradientAdd() {
  static const auto& definition =
      *new CardDefinition{{{"dy"}, {"x"}, {"gamma"}, {"mean"}, {"rstd"}, {"other"}},
                          {{"dx"}},
                          {{CastOp, {0}}, {LayerNormGradientOp, {6, 1, 2, 3, 4}}, {AddOp, {5, 7}}},
                          1,
                          {8},
                          StepOfNormGradient<DType::kF32>};
  return definition;
}

const CardDefinition& NormGradientAddCast() {
  static const auto& definition = *[] {
    auto* const made = new CardDefinition(NormGradientAdd());
    made->outputs = {{"dx"}, {"low"}};
    made->steps.push_back({CastOp, {8}});
    made->results = {8, 9};
    made->of_step = StepOfNormGradient<DType::kBF16>;
    return made;
  }();
  return definition;
}

template <DType kDropped>
const CardDefinition& NormGradientAddDropout() {
  static const auto& definition = *[] {
    auto* const made = new CardDefinition(NormGradientAddCast());
    made->outputs = {{"dx"}, {"dropped"}};
    made->steps.push_back({DropoutOp, {9}});
    made->results = {8, 10};
    made->of_step = StepOfNormGradient<kDropped>;
    return made;
  }();
  return definition;
}

Attributes OfCastNormParameterGradient(size_t step, const Attributes&) {
  if (step == 0) return CastAttributes{DType::kF32};
  return NoAttributes();
}

const CardDefinition& CastNormParameterGradient() {
  static const auto& definition =
      *new CardDefinition{{{"dy"}, {"x"}, {"mean"}, {"rstd"}},
                          {{"dgamma"}, {"dbeta"}},
                          {{CastOp, {0}}, {LayerNormParameterGradientOp, {4, 1, 2, 3}}},
                          1,
                          {5, 6},
                          OfCastNormParameterGradient};
  return definition;
}

// The norm itself is made of statistics that are there, as no op makes it.
constexpr size_t kInputsOfSums = 4, kSumsOfNorm = 2;

absl::StatusOr<Types> InferParameterGradientAndValue(const OpCall& call) {
  RETURN_IF_ERROR(CheckCount(kCastNormParameterGradientAndValue, call, kInputsOfSums + 2));
  ASSIGN_OR_RETURN(Types made,
                   InferCardOp(kCastNormParameterGradientAndValue, CastNormParameterGradient(),
                               {call.attributes, call.inputs.first(kInputsOfSums), call.outputs}));
  for (size_t i = 0; i < kSumsOfNorm; ++i) {
    RETURN_IF_ERROR(CheckType(kCastNormParameterGradientAndValue, "gamma and beta", made[i],
                              call.inputs[kInputsOfSums + i]));
  }
  made.push_back(Low(call.inputs[1]));
  return made;
}

Cost CostOfParameterGradientAndValue(const OpCall& call) {
  Cost cost = CostOfCardOp(
      CastNormParameterGradient(),
      {call.attributes, call.inputs.first(kInputsOfSums), call.outputs.first(kSumsOfNorm)});
  cost.flops += 2 * call.inputs[1].shape.NumElements();
  cost.bytes = BytesOf(call.inputs) + BytesOf(call.outputs);
  return cost;
}

absl::Status ReferenceOfParameterGradientAndValue(const ReferenceCall& call) {
  RETURN_IF_ERROR(ReferenceOfCardOp(CastNormParameterGradient(),
                                    {call.attributes, call.inputs.first(kInputsOfSums),
                                     call.outputs.first(kSumsOfNorm), call.seed, call.step}));
  const Array& x = call.inputs[1].array;
  const auto values = [&](size_t input) { return call.inputs[input].array.values.data(); };
  const double *const mean = values(2), *const rstd = values(3), *const gamma = values(4),
                      *const beta = values(5);
  double* y = call.outputs[kSumsOfNorm].array.values.data();
  const int64_t width = RowLength(x), rows = NumRows(x);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t e = 0; e < width; ++e) {
      *y++ = (x.values[r * width + e] - mean[r]) * rstd[r] * gamma[e] + beta[e];
    }
  }
  return absl::OkStatus();
}

// Tolerances, of what has no bf16 and what has.
constexpr double kOfF32 = 1e-5, kOfBf16 = 0x1p-7;
constexpr AddNormAttributes kDrops = {1e-3, 0.3, 77};

// dy is as x, or bf16.
std::vector<TensorType> OfNormGradient(const TensorType& dy, const TensorType& x,
                                       const TensorType& row, const TensorType& column) {
  return {dy, x, row, column, column, x};
}

// `tolerance`: of what is made of f32.
template <CardDefinitionOf kOf, const char* kName>
OpDef NormGradientOp(const Attributes& attributes, double tolerance) {
  OpDef op = MakeCardOp<kOf, kName>();
  op.attributes = attributes;
  std::visit([](auto& a) { a = {}; }, op.attributes);
  op.rule = [](const OpCall& call) {
    return IndexRule::Parse(call.outputs.size() == 1 ? "...E,...E,E,...,...,...E->...E"
                                                     : "...E,...E,E,...,...,...E->...E,...E");
  };
  const TensorType matrix = F32({5, 7}), cube = F32({3, 2, 5});
  op.cases = {{.name = "matrix",
               .attributes = attributes,
               .inputs = OfNormGradient(matrix, matrix, F32({7}), F32({5})),
               .tolerance = tolerance},
              {.name = "cube",
               .attributes = attributes,
               .inputs = OfNormGradient(cube, cube, F32({5}), F32({3, 2})),
               .tolerance = tolerance},
              {.name = "bf16",
               .attributes = attributes,
               .inputs = OfNormGradient(Low(cube), cube, F32({5}), F32({3, 2})),
               .tolerance = kOfBf16}};
  op.large_cases = {{.name = "",
                     .attributes = attributes,
                     .inputs = OfNormGradient(Wide(), Wide(), WideRow(), WideColumn()),
                     .tolerance = tolerance}};
  return op;
}

// With a term of bf16.
template <CardDefinitionOf kOf, const char* kName>
OpDef NormOfSumOp() {
  OpDef op = MakeCardOp<kOf, kName>();
  op.attributes = AddNormAttributes();
  op.rule = [](const OpCall& call) {
    const char* const low = call.outputs.size() == 5 ? ",...E" : "";
    return IndexRule::Parse(absl::StrCat("...E,...E,E,E->...E,...,...,...E", low));
  };
  const TensorType matrix = F32({5, 7}), row = F32({7}), cube = F32({3, 2, 5}), of_cube = F32({5});
  op.cases = {{.name = "bf16",
               .attributes = AddNormAttributes{1e-3},
               .inputs = {cube, Low(cube), of_cube, of_cube},
               .tolerance = kOfBf16},
              {.name = "dropped_bf16",
               .attributes = kDrops,
               .inputs = {matrix, Low(matrix), row, row},
               .tolerance = kOfBf16}};
  return op;
}

}  // namespace

const OpDef& LayerNormGradientCastOp() {
  static const OpDef op = [] {
    OpDef op = MakeCardOp<NormGradientCast, kNormGradientCast>();
    op.rule = [](const OpCall&) { return IndexRule::Parse("...E,...E,E,...,...->...E,...E"); };
    const TensorType matrix = F32({5, 7}), cube = F32({3, 2, 5});
    op.cases = {{.name = "matrix",
                 .attributes = NormAttributes(),
                 .inputs = {matrix, matrix, F32({7}), F32({5}), F32({5})},
                 .tolerance = kOfBf16},
                {.name = "cube",
                 .attributes = NormAttributes(),
                 .inputs = {cube, cube, F32({5}), F32({3, 2}), F32({3, 2})},
                 .tolerance = kOfBf16}};
    op.large_cases = {{.name = "",
                       .attributes = NormAttributes(),
                       .inputs = {Wide(), Wide(), WideRow(), WideColumn(), WideColumn()},
                       .tolerance = kOfBf16}};
    return op;
  }();
  return op;
}

const OpDef& AddLayerNormOp() {
  static const OpDef op = [] {
    OpDef op = NormOfSumOp<AddLayerNorm, kAddLayerNorm>();
    const TensorType matrix = F32({5, 7}), row = F32({7}), cube = F32({3, 2, 5}),
                     of_cube = F32({5});
    const OpCase of_f32[] = {{"matrix", AddNormAttributes(), {matrix, matrix, row, row}},
                             {"cube", AddNormAttributes{1e-3}, {cube, cube, of_cube, of_cube}},
                             {"dropped", kDrops, {cube, cube, of_cube, of_cube}}};
    op.cases.insert(op.cases.begin(), std::begin(of_f32), std::end(of_f32));
    op.large_cases = {{"", AddNormAttributes(), {Wide(), Wide(), WideRow(), WideRow()}},
                      {"", kDrops, {Wide(), Wide(), WideRow(), WideRow()}}};
    return op;
  }();
  return op;
}

template <CardDefinitionOf kOf, const char* kName>
const OpDef& CastNormOfSumOp() {
  static const OpDef op = [] {
    OpDef op = NormOfSumOp<kOf, kName>();
    op.large_cases = {{.name = "",
                       .attributes = kDrops,
                       .inputs = {Wide(), Low(Wide()), WideRow(), WideRow()},
                       .tolerance = kOfBf16}};
    return op;
  }();
  return op;
}
const OpDef& AddLayerNormCastOp() { return CastNormOfSumOp<AddLayerNormCast, kAddLayerNormCast>(); }
const OpDef& AddLayerNormAndCastOp() {
  return CastNormOfSumOp<AddLayerNormAndCast, kAddLayerNormAndCast>();
}

const OpDef& LayerNormGradientAddOp() {
  static const OpDef op =
      NormGradientOp<NormGradientAdd, kNormGradientAdd>(NormAttributes(), kOfF32);
  return op;
}

const OpDef& LayerNormGradientAddCastOp() {
  static const OpDef op =
      NormGradientOp<NormGradientAddCast, kNormGradientAddCast>(NormAttributes(), kOfBf16);
  return op;
}

const OpDef& LayerNormGradientAddDropoutOp() {
  static const OpDef op =
      NormGradientOp<NormGradientAddDropout<DType::kF32>, kNormGradientAddDropout>(kDrops, kOfF32);
  return op;
}

const OpDef& LayerNormGradientAddCastDropoutOp() {
  static const OpDef op =
      NormGradientOp<NormGradientAddDropout<DType::kBF16>, kNormGradientAddCastDropout>(kDrops,
                                                                                        kOfBf16);
  return op;
}

const OpDef& CastLayerNormParameterGradientOp() {
  static const OpDef op = [] {
    OpDef op = MakeCardOp<CastNormParameterGradient, kCastNormParameterGradient>();
    op.rule = [](const OpCall&) { return IndexRule::Parse("...e,...e,...,...->e,e", {{0}}); };
    const TensorType matrix = F32({5, 7}), cube = F32({3, 2, 5});
    const TensorType column = F32({5}), of_cube = F32({3, 2});
    op.cases = {{"matrix", NoAttributes(), {Low(matrix), matrix, column, column}},
                {"cube", NoAttributes(), {Low(cube), cube, of_cube, of_cube}}};
    op.large_cases = {{"", NoAttributes(), {Low(Wide()), Wide(), WideColumn(), WideColumn()}}};
    return op;
  }();
  return op;
}

const OpDef& CastLayerNormParameterGradientAndValueOp() {
  static const OpDef op = [] {
    OpDef op = CastLayerNormParameterGradientOp();
    op.name = kCastNormParameterGradientAndValue;
    op.inputs.insert(op.inputs.end(), {{"gamma"}, {"beta"}});
    op.outputs.push_back({"y"});
    op.infer = InferParameterGradientAndValue;
    // What the norm makes is not linear in dy.
    op.rule = [](const OpCall&) { return IndexRule::Parse("...e,...e,...,...,e,e->e,e,...e"); };
    op.cost = CostOfParameterGradientAndValue;
    op.reference = ReferenceOfParameterGradientAndValue;
    for (std::vector<OpCase>* const cases : {&op.cases, &op.large_cases}) {
      for (OpCase& op_case : *cases) {
        const Shape& x = op_case.inputs[1].shape;
        op_case.inputs.insert(op_case.inputs.end(), 2, F32({x[x.rank() - 1]}));
        op_case.tolerance = kOfBf16;
      }
    }
    return op;
  }();
  return op;
}

}  // namespace sluice
