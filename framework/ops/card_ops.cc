#include "framework/ops/card_ops.h"

#include <algorithm>
#include <utility>

#include "framework/ops/card_op.h"
#include "framework/ops/op_defs.h"

namespace sluice {
namespace {

const CardDefinition& Bias() {
  static const auto& definition = *new CardDefinition{
      {{"a"}, {"b"}, {"bias"}}, {{"y"}}, {{MatMulOp, {0, 1}}, {AddOp, {3, 2}}}, 0, {4}};
  return definition;
}

const CardDefinition& BiasGelu() {
  static const auto& definition =
      *new CardDefinition{{{"a"}, {"b"}, {"bias"}},
                          {{"y"}},
                          {{MatMulOp, {0, 1}}, {AddOp, {3, 2}}, {GeluOp, {4}}},
                          0,
                          {5}};
  return definition;
}

const CardDefinition& BiasGeluAux() {
  static const auto& definition = *[] {
    auto* const made = new CardDefinition(BiasGelu());
    made->outputs = {{"y"}, {"x"}};
    made->results = {5, 4};
    return made;
  }();
  return definition;
}

// The library reads an element of what it adds to right before it writes it. That is of the type of
// what it writes.
Port AddedTo(bool statistic) { return {.name = "other", .statistic = statistic, .in_place = true}; }

const CardDefinition& InputGradientAdd() {
  static const auto& definition =
      *new CardDefinition{{{"dy"}, {"b"}, AddedTo(/*statistic=*/false)},
                          {{"da"}},
                          {{MatMulInputGradientOp, {0, 1}}, {AddOp, {2, 3}}},
                          0,
                          {4}};
  return definition;
}

const CardDefinition& WeightGradientAdd() {
  static const auto& definition =
      *new CardDefinition{{{"x"}, {"dy"}, AddedTo(/*statistic=*/true)},
                          {{"dw"}},
                          {{MatMulWeightGradientOp, {0, 1}}, {AddOp, {2, 3}}},
                          0,
                          {4}};
  return definition;
}

template <const OpDef& (*kGradient)()>
const CardDefinition& GradientSum() {
  static const auto& definition = *new CardDefinition{
      {{"x"}, {"dy"}}, {{"dx"}, {"sum"}}, {{kGradient, {0, 1}}, {ReduceOp, {2}}}, 1, {2, 3}};
  return definition;
}

template <const OpDef& (*kGradient)(), const OpDef& (*kValue)()>
const CardDefinition& GradientSumAndValue() {
  static const auto& definition = *[] {
    auto* const made = new CardDefinition(GradientSum<kGradient>());
    made->outputs.push_back({"y"});
    made->steps.push_back({kValue, {0}});
    made->results.push_back(4);
    return made;
  }();
  return definition;
}

const CardDefinition& CastAdd() {
  static const auto& definition =
      *new CardDefinition{{{"a"}, {"b"}}, {{"y"}}, {{CastOp, {1}}, {AddOp, {0, 2}}}, 0, {3}};
  return definition;
}

const CardDefinition& MaxAndSumExp() {
  static const auto& definition =
      *new CardDefinition{{{"logits"}},
                          {{.name = "max", .statistic = true}, {.name = "sum", .statistic = true}},
                          {{CrossEntropyMaxOp, {0}}, {CrossEntropySumExpOp, {0, 1}}},
                          0,
                          {1, 2}};
  return definition;
}

// ---- Products ----

MatMulAttributes Transposed(bool a, bool b) { return {a, b}; }

// The factor that is summed up has a capital letter, for it is never split: what follows a product
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
template <CardDefinitionOf kOf, const char* kName>
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

// As of forward: what is added is a whole sum.
absl::StatusOr<IndexRule> RuleOfInputGradientAdd(const OpCall& call) {
  const auto& a = std::get<MatMulAttributes>(call.attributes);
  const bool leading = call.inputs[0].shape.rank() == call.inputs[1].shape.rank();
  const char* const da = a.transpose_a ? "...km" : "...mk";
  return IndexRule::Parse(
      absl::StrCat("...mN,", leading ? "..." : "", a.transpose_b ? "Nk" : "kN", ",", da, "->", da),
      {{0, 2}, {1, 2}});
}

// As of the gradient alone; what is added to lies as what comes out, partial where that is.
absl::StatusOr<std::vector<Signature>> SignaturesOfWeightGradientAdd(const OpCall& call,
                                                                     int64_t shards) {
  const OpCall gradient = {call.attributes, call.inputs.first(2), call.outputs};
  ASSIGN_OR_RETURN(std::vector<Signature> signatures,
                   SignaturesOf(MatMulWeightGradientOp(), gradient, shards));
  for (Signature& signature : signatures) signature.inputs.push_back(signature.outputs[0]);
  return signatures;
}

// ---- Gradients of activations ----

template <CardDefinitionOf kOf, const char* kName>
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

constexpr char kMatMulBias[] = "matmul_bias";
constexpr char kMatMulBiasGelu[] = "matmul_bias_gelu";
constexpr char kMatMulBiasGeluAux[] = "matmul_bias_gelu_aux";
constexpr char kInputGradientAdd[] = "matmul_input_gradient_add";
constexpr char kWeightGradientAdd[] = "matmul_weight_gradient_add";
constexpr char kGeluGradientSum[] = "gelu_gradient_sum";
constexpr char kGeluErfGradientSum[] = "gelu_erf_gradient_sum";
constexpr char kGeluGradientSumAndValue[] = "gelu_gradient_sum_and_value";
constexpr char kGeluErfGradientSumAndValue[] = "gelu_erf_gradient_sum_and_value";
constexpr char kCastAdd[] = "cast_add";
constexpr char kMaxAndSumExp[] = "ce_max_and_sum_exp";

}  // namespace

const OpDef& MatMulBiasOp() { return ForwardOp<Bias, kMatMulBias>(); }
const OpDef& MatMulBiasGeluOp() { return ForwardOp<BiasGelu, kMatMulBiasGelu>(); }
const OpDef& MatMulBiasGeluAuxOp() { return ForwardOp<BiasGeluAux, kMatMulBiasGeluAux>(); }

const OpDef& MatMulInputGradientAddOp() {
  static const OpDef op = [] {
    OpDef op = MakeCardOp<InputGradientAdd, kInputGradientAdd>();
    op.computes_in = ComputesIn::kLow;
    op.rule = RuleOfInputGradientAdd;
    op.cases = {
        {"shared", Transposed(false, false), {F32({2, 5, 4}), F32({3, 4}), F32({2, 5, 3})}},
        {"shared_transposed",
         Transposed(false, true),
         {F32({2, 5, 4}), F32({4, 3}), F32({2, 5, 3})}},
        {"batched", Transposed(false, false), {F32({3, 2, 4}), F32({3, 5, 4}), F32({3, 2, 5})}},
        {"batched_transposed",
         Transposed(true, true),
         {F32({3, 2, 4}), F32({3, 4, 5}), F32({3, 5, 2})}},
        {"of_nothing", Transposed(false, false), {F32({5, 0}), F32({3, 0}), F32({5, 3})}}};
    op.large_cases = {
        {"", Transposed(false, false), {F32({2, 95, 71}), F32({83, 71}), F32({2, 95, 83})}}};
    return op;
  }();
  return op;
}

const OpDef& MatMulWeightGradientAddOp() {
  static const OpDef op = [] {
    OpDef op = MakeCardOp<WeightGradientAdd, kWeightGradientAdd>();
    op.computes_in = ComputesIn::kLow;
    op.signatures = SignaturesOfWeightGradientAdd;
    const auto case_of = [](const char* name, bool transposed, Shape x, Shape dy, Shape dw) {
      return OpCase{name, Transposed(false, transposed), {F32(x), F32(dy), F32(dw)}};
    };
    op.cases = {case_of("shared", false, {2, 5, 3}, {2, 5, 4}, {3, 4}),
                case_of("shared_transposed", true, {2, 5, 3}, {2, 5, 4}, {4, 3}),
                case_of("matrix", false, {5, 3}, {5, 4}, {3, 4}),
                case_of("square", false, {4, 4}, {4, 4}, {4, 4}),
                case_of("of_nothing", false, {0, 3}, {0, 4}, {3, 4})};
    op.large_cases = {case_of("", true, {2, 150, 83}, {2, 150, 71}, {71, 83})};
    return op;
  }();
  return op;
}

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

const OpDef& CrossEntropyMaxAndSumExpOp() {
  static const OpDef op = [] {
    OpDef op = MakeCardOp<MaxAndSumExp, kMaxAndSumExp>();
    op.computes_in = ComputesIn::kEither;
    // The sum is of the whole row's maximum: classes are never split.
    op.rule = [](const OpCall&) { return IndexRule::Parse("...V->...,..."); };
    op.cases = {{"matrix", NoAttributes(), {F32({5, 7})}},
                {"cube", NoAttributes(), {F32({2, 3, 8})}}};
    op.large_cases = {{"", NoAttributes(), {Wide()}, -3, 3}};
    return op;
  }();
  return op;
}

}  // namespace sluice
