#include "framework/ops/card_ops.h"

#include <algorithm>
#include <utility>

#include "framework/ops/cases.h"
#include "framework/ops/inference.h"
#include "framework/ops/op_defs.h"

namespace sluice {
namespace {

// The definition is a list of ops. Values are numbered: inputs of the whole, then what each step
// makes. What is no output of the whole lies as its first output does, or, if it is cast, as what
// it is cast of.
struct Step {
  const OpDef& (*op)();
  std::vector<size_t> reads;
};
struct Definition {
  std::vector<Port> inputs, outputs;
  std::vector<Step> steps;
  size_t attributes;            // the step that they belong to
  std::vector<size_t> results;  // by output: the value that it is
  // Those of a step, where they belong to several.
  Attributes (*of_step)(size_t step, const Attributes& of_all) = nullptr;

  Attributes AttributesOf(size_t step, const Attributes& of_all) const {
    if (of_step != nullptr) return of_step(step, of_all);
    return step == attributes ? of_all : steps[step].op().attributes;
  }
  // Which output a value is; results.size(): none.
  size_t OutputOf(size_t value) const {
    return std::find(results.begin(), results.end(), value) - results.begin();
  }
};

const Definition& Bias() {
  static const auto& definition = *new Definition{
      {{"a"}, {"b"}, {"bias"}}, {{"y"}}, {{MatMulOp, {0, 1}}, {AddOp, {3, 2}}}, 0, {4}};
  return definition;
}

const Definition& BiasGelu() {
  static const auto& definition =
      *new Definition{{{"a"}, {"b"}, {"bias"}},
                      {{"y"}},
                      {{MatMulOp, {0, 1}}, {AddOp, {3, 2}}, {GeluOp, {4}}},
                      0,
                      {5}};
  return definition;
}

const Definition& BiasGeluAux() {
  static const auto& definition = *[] {
    auto* const made = new Definition(BiasGelu());
    made->outputs = {{"y"}, {"x"}};
    made->results = {5, 4};
    return made;
  }();
  return definition;
}

template <const OpDef& (*kGradient)()>
const Definition& GradientSum() {
  static const auto& definition = *new Definition{
      {{"x"}, {"dy"}}, {{"dx"}, {"sum"}}, {{kGradient, {0, 1}}, {ReduceOp, {2}}}, 1, {2, 3}};
  return definition;
}

template <const OpDef& (*kGradient)(), const OpDef& (*kValue)()>
const Definition& GradientSumAndValue() {
  static const auto& definition = *[] {
    auto* const made = new Definition(GradientSum<kGradient>());
    made->outputs.push_back({"y"});
    made->steps.push_back({kValue, {0}});
    made->results.push_back(4);
    return made;
  }();
  return definition;
}

const Definition& CastAdd() {
  static const auto& definition =
      *new Definition{{{"a"}, {"b"}}, {{"y"}}, {{CastOp, {1}}, {AddOp, {0, 2}}}, 0, {3}};
  return definition;
}

Attributes OfAddNorm(size_t step, const Attributes& of_all) {
  const auto& a = std::get<AddNormAttributes>(of_all);
  const Attributes of_steps[] = {DropoutAttributes{a.rate, a.key}, CastAttributes{DType::kF32},
                                 NoAttributes(), NormAttributes{a.epsilon},
                                 CastAttributes{DType::kBF16}};
  return of_steps[step];
}

// What is added may be bf16, in which it is then dropped.
const Definition& AddLayerNorm() {
  static const auto& definition =
      *new Definition{{{"a"}, {"b"}, {"gamma"}, {"beta"}},
                      {{"y"}, {"mean"}, {"rstd"}, {"sum"}},
                      {{DropoutOp, {1}}, {CastOp, {4}}, {AddOp, {0, 5}}, {LayerNormOp, {6, 2, 3}}},
                      0,
                      {7, 8, 9, 6},
                      OfAddNorm};
  return definition;
}

// y is bf16.
const Definition& AddLayerNormCast() {
  static const auto& definition = *[] {
    auto* const made = new Definition(AddLayerNorm());
    made->steps.push_back({CastOp, {7}});
    made->results[0] = 10;
    return made;
  }();
  return definition;
}

// y in bf16 beside it.
const Definition& AddLayerNormAndCast() {
  static const auto& definition = *[] {
    auto* const made = new Definition(AddLayerNorm());
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

const Definition& NormGradientCast() {
  static const auto& definition =
      *new Definition{{{"dy"}, {"x"}, {"gamma"}, {"mean"}, {"rstd"}},
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
const Definition& NormGradientAdd() {
  static const auto& definition =
      *new Definition{{{"dy"}, {"x"}, {"gamma"}, {"mean"}, {"rstd"}, {"other"}},
                      {{"dx"}},
                      {{CastOp, {0}}, {LayerNormGradientOp, {6, 1, 2, 3, 4}}, {AddOp, {5, 7}}},
                      1,
                      {8},
                      StepOfNormGradient<DType::kF32>};
  return definition;
}

const Definition& NormGradientAddCast() {
  static const auto& definition = *[] {
    auto* const made = new Definition(NormGradientAdd());
    made->outputs = {{"dx"}, {"low"}};
    made->steps.push_back({CastOp, {8}});
    made->results = {8, 9};
    made->of_step = StepOfNormGradient<DType::kBF16>;
    return made;
  }();
  return definition;
}

template <DType kDropped>
const Definition& NormGradientAddDropout() {
  static const auto& definition = *[] {
    auto* const made = new Definition(NormGradientAddCast());
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

const Definition& CastNormParameterGradient() {
  static const auto& definition =
      *new Definition{{{"dy"}, {"x"}, {"mean"}, {"rstd"}},
                      {{"dgamma"}, {"dbeta"}},
                      {{CastOp, {0}}, {LayerNormParameterGradientOp, {4, 1, 2, 3}}},
                      1,
                      {5, 6},
                      OfCastNormParameterGradient};
  return definition;
}

using DefinitionOf = const Definition& (*)();

// An addition would take other operands, too, and make more of them.
bool AddsAsDefined(const Types& inputs) {
  const Shape& to = inputs[0].shape;
  const Shape& added = inputs[1].shape;
  return added == to || (added.rank() == 1 && to.rank() > 1 && added[0] == to[to.rank() - 1]);
}

TensorType CastOf(const Attributes& attributes, const TensorType& x) {
  return {std::get<CastAttributes>(attributes).dtype, x.shape};
}

// Of all values.
absl::StatusOr<Types> TypesOf(absl::string_view name, const Definition& of, const OpCall& call) {
  RETURN_IF_ERROR(CheckCount(name, call, of.inputs.size()));
  Types types(call.inputs.begin(), call.inputs.end());
  for (size_t s = 0; s < of.steps.size(); ++s) {
    const OpDef& op = of.steps[s].op();
    const Attributes attributes = of.AttributesOf(s, call.attributes);
    Types inputs;
    for (const size_t read : of.steps[s].reads) inputs.push_back(types[read]);
    if (&op == &AddOp() && !AddsAsDefined(inputs)) {
      return Mismatch(name, "expected equal shapes, or a bias for each row of ",
                      TypeText(inputs[0]), ", got ", TypeText(inputs[1]));
    }
    if (&op == &ReduceOp() &&
        !SumsAllButTheLast(std::get<ReduceAttributes>(attributes), inputs[0].shape)) {
      return Mismatch(name, "expected a sum over all dimensions of ", TypeText(inputs[0]),
                      " but the last, got another reduction");
    }
    ASSIGN_OR_RETURN(const Types made, op.infer({attributes, inputs, {}}));
    types.insert(types.end(), made.begin(), made.end());
  }
  return types;
}

template <DefinitionOf kOf>
Cost CostOf(const OpCall& call) {
  const Definition& of = kOf();
  Types types(call.inputs.begin(), call.inputs.end());
  Cost total;
  for (size_t s = 0; s < of.steps.size(); ++s) {
    const OpDef& op = of.steps[s].op();
    const Attributes attributes = of.AttributesOf(s, call.attributes);
    Types inputs, made;
    for (const size_t read : of.steps[s].reads) inputs.push_back(types[read]);
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      const size_t output = of.OutputOf(types.size() + i);
      made.push_back(output < call.outputs.size() ? call.outputs[output]
                     : &op == &CastOp()           ? CastOf(attributes, inputs[0])
                                                  : call.outputs[0]);
    }
    const Cost cost = op.cost({attributes, inputs, made});
    total.flops += cost.flops;
    total.scratch = std::max(total.scratch, cost.scratch);
    total.cuda_scratch =
        std::max(total.cuda_scratch.value_or(0), cost.ScratchOn(DeviceKind::kCuda));
    types.insert(types.end(), made.begin(), made.end());
  }
  // What stands between the steps is not written.
  total.bytes = BytesOf(call.inputs) + BytesOf(call.outputs);
  return total;
}

template <DefinitionOf kOf>
absl::Status ReferenceOf(const ReferenceCall& call) {
  const Definition& of = kOf();
  std::vector<ShardArray> values(call.inputs.begin(), call.inputs.end());
  for (size_t s = 0; s < of.steps.size(); ++s) {
    const OpDef& op = of.steps[s].op();
    const Attributes attributes = of.AttributesOf(s, call.attributes);
    std::vector<ShardArray> inputs, made;
    for (const size_t read : of.steps[s].reads) inputs.push_back(values[read]);
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      const size_t output = of.OutputOf(values.size() + i);
      ShardArray like = call.outputs[output < call.outputs.size() ? output : 0];
      if (output >= call.outputs.size() && &op == &CastOp()) {
        like.logical = CastOf(attributes, inputs[0].logical), like.box = inputs[0].box;
      }
      made.push_back({like.logical, like.box, Array(ShapeOf(like.box))});
    }
    RETURN_IF_ERROR(op.reference(
        {attributes, absl::MakeSpan(inputs), absl::MakeSpan(made), call.seed, call.step}));
    for (ShardArray& value : made) values.push_back(std::move(value));
  }
  for (size_t i = 0; i < of.results.size(); ++i) {
    call.outputs[i].array = values[of.results[i]].array;
  }
  return absl::OkStatus();
}

template <DefinitionOf kOf, const char* kName>
OpDef MakeCardOp() {
  OpDef op;
  op.name = kName;
  op.inputs = kOf().inputs;
  op.outputs = kOf().outputs;
  op.attributes = kOf().steps[kOf().attributes].op().attributes;
  op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
    ASSIGN_OR_RETURN(const Types types, TypesOf(kName, kOf(), call));
    Types made;
    for (const size_t value : kOf().results) made.push_back(types[value]);
    return made;
  };
  op.cost = CostOf<kOf>;
  op.reference = ReferenceOf<kOf>;
  op.timing = NotTimed("CPUs, which are what is calibrated, have no kernel of it");
  return op;
}

// ---- Products ----

MatMulAttributes Transposed(bool a, bool b) { return {a, b}; }

// The factor that is summed up is written large, for it is never split: what follows a product
// takes the whole sum, and a bias is to be added once.
absl::StatusOr<IndexRule> RuleOfForward(const OpCall& call) {
  const auto& a = std::get<MatMulAttributes>(call.attributes);
  const bool leading = call.inputs[0].shape.rank() == call.inputs[1].shape.rank();
  std::string equation = absl::StrCat(a.transpose_a ? "...Km," : "...mK,", leading ? "..." : "",
                                      a.transpose_b ? "nK,n->...mn" : "Kn,n->...mn");
  if (call.outputs.size() == 2) absl::StrAppend(&equation, ",...mn");
  return IndexRule::Parse(equation);
}

// Rows of eight elements, which an epilogue wants for what it keeps, and others.
template <DefinitionOf kOf, const char* kName>
const OpDef& ForwardOp() {
  static const OpDef op = [] {
    OpDef op = MakeCardOp<kOf, kName>();
    op.computes_in = ComputesIn::kLow;
    op.rule = RuleOfForward;
    op.cases = {{"matrix", Transposed(false, false), {F32({5, 3}), F32({3, 4}), F32({4})}},
                {"wide", Transposed(false, false), {F32({2, 5, 3}), F32({3, 16}), F32({16})}},
                {"wide_transposed", Transposed(true, true), {F32({3, 5}), F32({16, 3}), F32({16})}},
                {"batched", Transposed(true, false), {F32({3, 5, 2}), F32({3, 5, 8}), F32({8})}}};
    op.large_cases = {{"", Transposed(false, false), {F32({3, 65, 83}), F32({83, 72}), F32({72})}},
                      {"", Transposed(false, true), {F32({190, 83}), F32({71, 83}), F32({71})}}};
    return op;
  }();
  return op;
}

// ---- Gradients of activations ----

template <DefinitionOf kOf, const char* kName>
const OpDef& GradientSumOp() {
  static const OpDef op = [] {
    OpDef op = MakeCardOp<kOf, kName>();
    op.computes_in = ComputesIn::kEither;
    op.in_place = true;
    op.rule = [](const OpCall& call) {
      const std::string x = DimFactors(call.inputs[0].shape.rank());
      const std::string made = absl::StrCat(x, ",", x, "->", x, ",", x.substr(x.size() - 1));
      // gelu(x) is not linear in dy.
      if (call.outputs.size() == 3) return IndexRule::Parse(absl::StrCat(made, ",", x));
      return IndexRule::Parse(made, {{1}});
    };
    const auto sum = [](const Shape& dims) {
      return ReduceAttributes{Reduction::kSum, false, dims};
    };
    const auto two = [](const Shape& shape) {
      return std::vector<TensorType>{F32(shape), F32(shape)};
    };
    op.cases = {{"matrix", sum({0}), two({5, 7})}, {"cube", sum({0, 1}), two({3, 2, 8})}};
    op.large_cases = {{"", sum({0}), two(Wide().shape)}, {"", sum({0, 1}), two({3, 401, 72})}};
    // What is left of terms of both signs may be small.
    for (OpCase& op_case : op.cases) op_case.tolerance = 1e-4;
    return op;
  }();
  return op;
}

// ---- Norms ----

// Tolerances, of what has no bf16 and what has.
constexpr double kOfF32 = 1e-5, kOfBf16 = 0x1p-7;
constexpr AddNormAttributes kDrops = {1e-3, 0.3, 77};

TensorType Low(const TensorType& x) { return {DType::kBF16, x.shape}; }

// dy is as x, or bf16.
std::vector<TensorType> OfNormGradient(const TensorType& dy, const TensorType& x,
                                       const TensorType& row, const TensorType& column) {
  return {dy, x, row, column, column, x};
}

// `tolerance`: of what is made of f32.
template <DefinitionOf kOf, const char* kName>
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
template <DefinitionOf kOf, const char* kName>
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

constexpr char kMatMulBias[] = "matmul_bias";
constexpr char kMatMulBiasGelu[] = "matmul_bias_gelu";
constexpr char kMatMulBiasGeluAux[] = "matmul_bias_gelu_aux";
constexpr char kGeluGradientSum[] = "gelu_gradient_sum";
constexpr char kGeluErfGradientSum[] = "gelu_erf_gradient_sum";
constexpr char kGeluGradientSumAndValue[] = "gelu_gradient_sum_and_value";
constexpr char kGeluErfGradientSumAndValue[] = "gelu_erf_gradient_sum_and_value";
constexpr char kCastAdd[] = "cast_add";
constexpr char kAddLayerNorm[] = "add_layer_norm";
constexpr char kAddLayerNormCast[] = "add_layer_norm_cast";
constexpr char kAddLayerNormAndCast[] = "add_layer_norm_and_cast";
constexpr char kNormGradientCast[] = "layer_norm_gradient_cast";
constexpr char kNormGradientAdd[] = "layer_norm_gradient_add";
constexpr char kNormGradientAddCast[] = "layer_norm_gradient_add_cast";
constexpr char kNormGradientAddDropout[] = "layer_norm_gradient_add_dropout";
constexpr char kNormGradientAddCastDropout[] = "layer_norm_gradient_add_cast_dropout";
constexpr char kCastNormParameterGradient[] = "cast_layer_norm_parameter_gradient";

}  // namespace

const OpDef& MatMulBiasOp() { return ForwardOp<Bias, kMatMulBias>(); }
const OpDef& MatMulBiasGeluOp() { return ForwardOp<BiasGelu, kMatMulBiasGelu>(); }
const OpDef& MatMulBiasGeluAuxOp() { return ForwardOp<BiasGeluAux, kMatMulBiasGeluAux>(); }

const OpDef& GeluGradientSumOp() {
  return GradientSumOp<GradientSum<GeluGradientOp>, kGeluGradientSum>();
}
const OpDef& GeluErfGradientSumOp() {
  return GradientSumOp<GradientSum<GeluErfGradientOp>, kGeluErfGradientSum>();
}
const OpDef& GeluGradientSumAndValueOp() {
  return GradientSumOp<GradientSumAndValue<GeluGradientOp, GeluOp>, kGeluGradientSumAndValue>();
}
const OpDef& GeluErfGradientSumAndValueOp() {
  return GradientSumOp<GradientSumAndValue<GeluErfGradientOp, GeluErfOp>,
                       kGeluErfGradientSumAndValue>();
}

bool SumsAllButTheLast(const ReduceAttributes& attributes, const Shape& shape) {
  const Shape& dims = attributes.dims;
  const int last = shape.rank() - 1;
  return attributes.reduction == Reduction::kSum && !attributes.mean && dims.rank() == last &&
         std::find(dims.begin(), dims.end(), last) == dims.end();
}

const OpDef& CastAddOp() {
  static const OpDef op = [] {
    OpDef op = MakeCardOp<CastAdd, kCastAdd>();
    op.attributes = CastAttributes{DType::kF32};
    op.rule = [](const OpCall&) { return IndexRule::Parse("...,...->...", {{0, 1}}); };
    const TensorType matrix = F32({5, 7}), cube = F32({3, 2, 8});
    op.cases = {{"matrix", CastAttributes{DType::kF32}, {matrix, Low(matrix)}},
                {"cube", CastAttributes{DType::kF32}, {cube, Low(cube)}}};
    op.large_cases = {{"", CastAttributes{DType::kF32}, {Wide(), Low(Wide())}}};
    return op;
  }();
  return op;
}

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

template <DefinitionOf kOf, const char* kName>
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

}  // namespace sluice
