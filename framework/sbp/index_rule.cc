#include "framework/sbp/index_rule.h"

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

constexpr absl::string_view kDots = "...";
// A written 1 has a name of its own: the dimensions under "..." are called 0, 1, and so on.
constexpr char kOne = kOneFactor[0];

// The terms of one side of the arrow, each checked.
absl::StatusOr<std::vector<std::string>> ParseTerms(absl::string_view side,
                                                    absl::string_view equation) {
  std::vector<std::string> terms;
  if (side.empty()) return terms;
  for (absl::string_view term : absl::StrSplit(side, ',')) {
    const auto bad = [&](absl::string_view why) {
      return absl::InvalidArgumentError(
          absl::StrCat("index rule \"", equation, "\": ", why, " in \"", term, "\""));
    };
    std::string seen;
    bool dots = false;
    for (size_t i = 0; i < term.size(); ++i) {
      if (term.substr(i, kDots.size()) == kDots) {
        if (dots) return bad("\"...\" stands twice");
        dots = true;
        i += kDots.size() - 1;
      } else if (absl::ascii_islower(term[i])) {
        if (seen.find(term[i]) != std::string::npos) return bad("a factor stands twice");
        seen += term[i];
      } else if (!absl::ascii_isupper(term[i]) && term[i] != '1') {
        return bad("expected factors, 1 and \"...\"");
      }
    }
    terms.emplace_back(term);
  }
  return terms;
}

// The factor of each dimension of a tensor of the given rank.
absl::StatusOr<std::vector<std::string>> Expand(const std::string& term, const Shape& shape,
                                                const std::string& what) {
  const size_t dots = term.find(std::string(kDots));
  const int named = static_cast<int>(term.size()) -
                    (dots == std::string::npos ? 0 : static_cast<int>(kDots.size()));
  const int under = shape.rank() - named;
  if (under < 0 || (dots == std::string::npos && under != 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": expected dimensions \"", term, "\", got shape ", shape.ToString()));
  }
  std::vector<std::string> factors;
  for (size_t i = 0; i < term.size(); ++i) {
    if (i == dots) {
      for (int d = 0; d < under; ++d) factors.push_back(absl::StrCat(d));
      i += kDots.size() - 1;
    } else {
      factors.emplace_back(1, term[i] == '1' ? kOne : term[i]);
    }
  }
  return factors;
}

// One tensor of the op: its factors and its shape.
struct Operand {
  std::vector<std::string> factors;
  Shape shape;
  int Find(const std::string& factor) const {
    const auto at = std::find(factors.begin(), factors.end(), factor);
    return at == factors.end() ? -1 : static_cast<int>(at - factors.begin());
  }
};

absl::StatusOr<std::vector<Operand>> Bind(const std::vector<std::string>& terms,
                                          absl::Span<const Shape> shapes, const char* side,
                                          const std::string& equation,
                                          std::map<std::string, int64_t>* extents) {
  const std::string rule = absl::StrCat("index rule \"", equation, "\"");
  // A side without any factor is nothing at all, or one scalar.
  const bool scalar = terms.empty() && shapes.size() == 1;
  if (!scalar && terms.size() != shapes.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(rule, ": expected ", terms.size(), " ", side, "s, got ", shapes.size()));
  }
  std::vector<Operand> operands;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const std::string what = absl::StrCat(rule, ", ", side, " ", i);
    Operand operand;
    operand.shape = shapes[i];
    ASSIGN_OR_RETURN(operand.factors, Expand(scalar ? "" : terms[i], shapes[i], what));
    for (size_t d = 0; d < operand.factors.size(); ++d) {
      const std::string& factor = operand.factors[d];
      const int64_t extent = shapes[i][static_cast<int>(d)];
      const int64_t expected =
          factor[0] == kOne ? 1 : extents->emplace(factor, extent).first->second;
      if (extent != expected) {
        return absl::InvalidArgumentError(absl::StrCat(what, ": expected extent ", expected,
                                                       " for ", factor[0] == kOne ? "1" : factor,
                                                       ", got shape ", shapes[i].ToString()));
      }
    }
    operands.push_back(std::move(operand));
  }
  return operands;
}

std::string Join(const std::vector<Sbp>& sbps) {
  return absl::StrJoin(sbps, ",", [](std::string* out, Sbp sbp) { *out += ToString(sbp); });
}

}  // namespace

std::string ToString(const Signature& signature) {
  return absl::StrCat(Join(signature.inputs), "->", Join(signature.outputs));
}

absl::StatusOr<IndexRule> IndexRule::Parse(absl::string_view equation,
                                           std::vector<std::vector<int>> linear,
                                           Reduction contracted) {
  const std::vector<absl::string_view> sides = absl::StrSplit(equation, "->");
  if (sides.size() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("index rule \"", equation, "\": expected one ->"));
  }
  IndexRule rule;
  rule.equation = std::string(equation);
  ASSIGN_OR_RETURN(rule.input_factors, ParseTerms(sides[0], equation));
  ASSIGN_OR_RETURN(rule.output_factors, ParseTerms(sides[1], equation));
  // A side without any factor is nothing at all, or one scalar.
  const int inputs = std::max(1, static_cast<int>(rule.input_factors.size()));
  for (const std::vector<int>& set : linear) {
    for (int input : set) {
      if (input < 0 || input >= inputs) {
        return absl::InvalidArgumentError(absl::StrCat(
            "index rule \"", equation, "\": linear in input ", input, ", of ", inputs));
      }
    }
  }
  rule.linear = std::move(linear);
  rule.contracted = contracted;
  return rule;
}

absl::StatusOr<TensorFactors> IndexRule::Factors(absl::Span<const Shape> inputs,
                                                 absl::Span<const Shape> outputs) const {
  std::map<std::string, int64_t> extents;
  ASSIGN_OR_RETURN(const auto ins, Bind(input_factors, inputs, "input", equation, &extents));
  ASSIGN_OR_RETURN(const auto outs, Bind(output_factors, outputs, "output", equation, &extents));
  TensorFactors factors;
  for (const Operand& operand : ins) factors.inputs.push_back(operand.factors);
  for (const Operand& operand : outs) factors.outputs.push_back(operand.factors);
  return factors;
}

absl::StatusOr<std::vector<Signature>> IndexRule::Signatures(absl::Span<const Shape> inputs,
                                                             absl::Span<const Shape> outputs,
                                                             int64_t shards) const {
  std::map<std::string, int64_t> extents;
  ASSIGN_OR_RETURN(const auto ins, Bind(input_factors, inputs, "input", equation, &extents));
  ASSIGN_OR_RETURN(const auto outs, Bind(output_factors, outputs, "output", equation, &extents));

  Signature whole;
  whole.inputs.assign(ins.size(), Sbp::B());
  whole.outputs.assign(outs.size(), Sbp::B());
  if (shards < 2) return std::vector<Signature>{whole};  // every factor would say the same again
  std::vector<Signature> signatures;
  signatures.reserve(1 + extents.size() + linear.size());
  signatures.push_back(whole);
  for (const auto& entry : extents) {
    const std::string& factor = entry.first;
    if (entry.second < 2 || absl::ascii_isupper(factor[0])) continue;
    Signature split = whole;
    split.factor = factor;
    for (size_t i = 0; i < ins.size(); ++i) {
      const int dim = ins[i].Find(factor);
      if (dim >= 0) split.inputs[i] = Sbp::S(dim);
    }
    bool legal = true;
    for (size_t i = 0; i < outs.size(); ++i) {
      const int dim = outs[i].Find(factor);
      split.outputs[i] = dim >= 0 ? Sbp::S(dim) : Sbp::P(contracted);
      if (dim < 0 && contracted == Reduction::kNone) legal = false;
    }
    if (legal) signatures.push_back(std::move(split));
  }
  const Sbp partial = Sbp::P(contracted == Reduction::kNone ? Reduction::kSum : contracted);
  for (const std::vector<int>& set : linear) {
    Signature reduced = whole;
    reduced.factor = "P";
    for (int input : set) reduced.inputs[input] = partial;
    reduced.outputs.assign(outs.size(), partial);
    signatures.push_back(std::move(reduced));
  }
  return signatures;
}

}  // namespace sluice
