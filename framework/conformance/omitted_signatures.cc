#include "framework/conformance/omitted_signatures.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "framework/base/status.h"

namespace sluice {
namespace {

// A reference implementation may run only where dimensions that belong together are cut alike.
// Inference says which do: it is asked with every cut extent e replaced by e + kCut, so that no cut
// dimension looks like one that is whole, or like one of size 1 that broadcasts.
constexpr int64_t kCut = 1000;

Shape MarkCut(const Shape& shape, const Sbp& sbp) {
  Shape marked = shape;
  if (sbp.is_split()) marked[sbp.dim] += kCut;
  return marked;
}

// The op's attributes if inputs were of the marked types and outputs had this shape; nothing where
// a cut dimension is one that the attributes speak of by logical index.
std::optional<Attributes> AttributesFor(const Attributes& attributes,
                                        const std::vector<TensorType>& marked, const Shape& output,
                                        const std::vector<Sbp>& inputs, const Sbp& output_sbp) {
  Attributes local = attributes;
  if (auto* images = std::get_if<NormalizeImagesAttributes>(&local)) {
    const Shape& x = marked[0].shape;
    images->mean.resize(x[x.rank() - 1], 0);
    images->stddev.resize(x[x.rank() - 1], 1);
  }
  if (auto* shape = std::get_if<ShapeAttributes>(&local)) shape->shape = output;
  if (auto* fill = std::get_if<FillAttributes>(&local)) fill->shape = output;
  if (auto* rows = std::get_if<RowsAttributes>(&local)) rows->rows = output[0];
  if (auto* sample = std::get_if<SampleAttributes>(&local)) sample->groups = output[0];
  if (const auto* slice = std::get_if<SliceAttributes>(&local)) {
    const Sbp along = Sbp::S(static_cast<int>(slice->dim));
    if (inputs[0] == along || output_sbp == along) return std::nullopt;
  }
  if (const auto* concat = std::get_if<ConcatAttributes>(&local)) {
    const Sbp along = Sbp::S(static_cast<int>(concat->dim));
    if (std::find(inputs.begin(), inputs.end(), along) != inputs.end()) return std::nullopt;
  }
  return local;
}

bool SpeaksOfOutputShape(const Attributes& attributes) {
  return std::holds_alternative<ShapeAttributes>(attributes) ||
         std::holds_alternative<FillAttributes>(attributes) ||
         std::holds_alternative<RowsAttributes>(attributes) ||
         std::holds_alternative<SampleAttributes>(attributes);
}

std::vector<Sbp> Splits(const Shape& shape) {
  std::vector<Sbp> splits;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] > 1) splits.push_back(Sbp::S(d));
  }
  return splits;
}

std::vector<Sbp> InputChoices(const OpDef& op, const OpCase& op_case, size_t input) {
  const TensorType& type = op_case.inputs[input];
  std::vector<Sbp> choices = Splits(type.shape);
  choices.push_back(Sbp::B());
  if (IsFloat(type.dtype) && !Updates(op, input)) choices.push_back(Sbp::P());
  return choices;
}

class Search {
 public:
  Search(const OpDef& op, const OpCase& op_case, const CaseValues& values)
      : op_(op), case_(op_case), values_(values) {}

  // All layouts of the inputs, by counting through the choices of each.
  SignatureSearch Run() {
    std::vector<std::vector<Sbp>> choices;
    for (size_t i = 0; i < case_.inputs.size(); ++i) {
      choices.push_back(InputChoices(op_, case_, i));
    }
    std::vector<size_t> at(choices.size(), 0);
    while (true) {
      std::vector<Sbp> inputs;
      for (size_t i = 0; i < choices.size(); ++i) inputs.push_back(choices[i][at[i]]);
      ++found_.candidates;
      Try(inputs);
      size_t i = 0;
      while (i < at.size() && ++at[i] == choices[i].size()) at[i++] = 0;
      if (i == at.size()) break;
    }
    return std::move(found_);
  }

 private:
  // Finds how outputs may be cut when inputs are laid out so: each whole (B here) or S.
  void Try(const std::vector<Sbp>& inputs) {
    std::vector<TensorType> marked = case_.inputs;
    for (size_t i = 0; i < marked.size(); ++i)
      marked[i].shape = MarkCut(marked[i].shape, inputs[i]);
    if (SpeaksOfOutputShape(case_.attributes)) {
      std::vector<Sbp> cuts = Splits(values_.output_types[0].shape);
      cuts.push_back(Sbp::B());
      for (const Sbp& cut : cuts) {
        if (op_.view && ElementsAgree(inputs[0], cut)) Judge(inputs, {cut});
        if (op_.view) continue;
        if (const auto all = CutsBeside(marked, inputs, cut)) Judge(inputs, *all);
      }
      return;
    }
    std::vector<Sbp> cuts;
    const auto attributes = AttributesFor(case_.attributes, marked, {}, inputs, Sbp::B());
    if (!attributes.has_value()) return;
    const auto inferred = op_.infer({*attributes, marked, {}});
    if (!inferred.ok()) return;
    for (size_t i = 0; i < inferred->size(); ++i) {
      const auto cut = CutOf(values_.output_types[i].shape, (*inferred)[i].shape);
      if (!cut.has_value()) return;
      cuts.push_back(*cut);
    }
    Judge(inputs, cuts);
  }

  // How all outputs are cut where the first is cut so; nothing where it cannot be.
  std::optional<std::vector<Sbp>> CutsBeside(const std::vector<TensorType>& marked,
                                             const std::vector<Sbp>& inputs, const Sbp& cut) const {
    const Shape output = MarkCut(values_.output_types[0].shape, cut);
    const auto attributes = AttributesFor(case_.attributes, marked, output, inputs, cut);
    if (!attributes.has_value()) return std::nullopt;
    const auto inferred = op_.infer({*attributes, marked, {}});
    if (!inferred.ok() || (*inferred)[0].shape != output) return std::nullopt;
    std::vector<Sbp> cuts = {cut};
    for (size_t i = 1; i < inferred->size(); ++i) {
      const auto other = CutOf(values_.output_types[i].shape, (*inferred)[i].shape);
      if (!other.has_value()) return std::nullopt;
      cuts.push_back(*other);
    }
    return cuts;
  }

  // A reshape may run wherever both sides hold as many elements.
  bool ElementsAgree(const Sbp& input, const Sbp& output) const {
    for (int64_t shards : {2, 3}) {
      for (int64_t i = 0; i < shards; ++i) {
        if (Volume(BoxAt(values_.input_types[0].shape, {input}, {shards}, {i})) !=
            Volume(BoxAt(values_.output_types[0].shape, {output}, {shards}, {i}))) {
          return false;
        }
      }
    }
    return true;
  }

  static std::optional<Sbp> CutOf(const Shape& whole, const Shape& marked) {
    if (whole == marked) return Sbp::B();
    for (int d = 0; d < whole.rank(); ++d) {
      if (MarkCut(whole, Sbp::S(d)) == marked) return Sbp::S(d);
    }
    return std::nullopt;
  }

  // Runs the shards and finds the layouts of the outputs that come out right.
  void Judge(const std::vector<Sbp>& inputs, const std::vector<Sbp>& cuts) {
    const bool trivial =
        std::all_of(inputs.begin(), inputs.end(),
                    [](const Sbp& sbp) { return sbp.is_broadcast(); }) &&
        std::all_of(cuts.begin(), cuts.end(), [](const Sbp& sbp) { return sbp.is_broadcast(); });
    if (trivial) return;
    ++found_.runs;
    Signature signature = {"", inputs, {}};
    for (size_t i = 0; i < cuts.size(); ++i) signature.outputs.push_back(cuts[i]);
    std::vector<std::vector<Sbp>> possible(cuts.size());
    for (size_t i = 0; i < cuts.size(); ++i) {
      possible[i] = {cuts[i]};
      if (cuts[i].is_broadcast()) {
        possible[i] = {Sbp::B(), Sbp::P(), Sbp::P(Reduction::kMax)};
      }
    }
    for (int64_t shards : {2, 3}) {
      if (!Narrow(inputs, cuts, shards, &possible)) return;
    }
    for (size_t i = 0; i < cuts.size(); ++i) signature.outputs[i] = possible[i][0];
    found_.valid.push_back(std::move(signature));
  }

  // Keeps of each output the layouts that are right for so many shards; false if none is left.
  bool Narrow(const std::vector<Sbp>& inputs, const std::vector<Sbp>& cuts, int64_t shards,
              std::vector<std::vector<Sbp>>* possible) const {
    std::vector<AxisSbps> in, out;
    for (const Sbp& sbp : inputs) in.push_back({sbp});
    for (const Sbp& sbp : cuts) out.push_back({sbp});
    const auto results = RunShards(op_, case_, values_, in, out, {shards});
    if (!results.ok()) return false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!Updates(op_, i)) continue;
      const auto got = Assemble(results->updated[i], values_.updated[i].shape, in[i], {shards});
      if (!got.ok() || !AlmostEqual(*got, values_.updated[i])) return false;
    }
    for (size_t i = 0; i < cuts.size(); ++i) {
      const Array& expected = values_.outputs[i];
      const auto wrong = [&](const Sbp& sbp) {
        const auto got = Assemble(results->outputs[i], expected.shape, {sbp}, {shards});
        return !got.ok() || !AlmostEqual(*got, expected);
      };
      std::vector<Sbp>& left = (*possible)[i];
      left.erase(std::remove_if(left.begin(), left.end(), wrong), left.end());
      if (left.empty()) return false;
    }
    return true;
  }

  const OpDef& op_;
  const OpCase& case_;
  const CaseValues& values_;
  SignatureSearch found_;
};

bool Contains(const std::vector<Signature>& list, const Signature& signature) {
  return std::any_of(list.begin(), list.end(), [&](const Signature& other) {
    return other.inputs == signature.inputs && other.outputs == signature.outputs;
  });
}

}  // namespace

absl::StatusOr<SignatureSearch> SearchSignatures(const OpDef& op, const OpCase& op_case) {
  ASSIGN_OR_RETURN(const CaseValues values, RunWhole(op, op_case, /*seed=*/23));
  SignatureSearch found = Search(op, op_case, values).Run();
  const OpCall call = {op_case.attributes, values.input_types, values.output_types};
  ASSIGN_OR_RETURN(const std::vector<Signature> for_two, SignaturesOf(op, call, 2));
  ASSIGN_OR_RETURN(const std::vector<Signature> for_three, SignaturesOf(op, call, 3));
  std::vector<Signature> listed;
  for (const Signature& signature : for_two) {
    if (Contains(for_three, signature)) listed.push_back(signature);
  }
  for (const Signature& signature : found.valid) {
    if (!Contains(listed, signature)) found.omitted.push_back(signature);
  }
  for (const Signature& signature : listed) {
    // P of integers is listed by ops that only move elements, and not searched.
    bool searched = !signature.factor.empty();
    for (size_t i = 0; i < signature.inputs.size(); ++i) {
      const bool integer = !IsFloat(op_case.inputs[i].dtype);
      searched = searched && !(integer && signature.inputs[i].is_partial());
    }
    if (searched && !Contains(found.valid, signature)) found.unfound.push_back(signature);
  }
  return found;
}

}  // namespace sluice
