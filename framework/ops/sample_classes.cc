// Which classes take part in a step, where there are too many for all to (partial FC, An et al.
// 2022): those of the labels, and others drawn by (seed, name, step, class). They are taken of
// equal ranges, the groups, as many of each, so that a device that has some groups draws theirs
// alone, and the draw is the same on every mesh.
//
// The classes of the labels come first, ascending, and the drawn ones after them. So where a
// label's class stands follows from the labels alone: every device finds that of all labels, and
// none has to be told what another drew. Where all classes take part they stay in their order.
#include <algorithm>
#include <utility>
#include <vector>

#include "framework/ops/cases.h"
#include "framework/ops/inference.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/ops/reference.h"
#include "framework/tensor/random.h"

namespace sluice {
namespace {

absl::StatusOr<Types> InferSample(const OpCall& call) {
  constexpr char kOp[] = "sample_classes";
  const SampleAttributes& a = std::get<SampleAttributes>(call.attributes);
  RETURN_IF_ERROR(CheckCount(kOp, call, 1));
  const TensorType& labels = call.inputs[0];
  RETURN_IF_ERROR(CheckIndices(kOp, "labels", labels));
  if (labels.shape.rank() != 1) {
    return Mismatch(kOp, "expected labels of [batch], got ", TypeText(labels));
  }
  if (a.groups < 1 || a.classes < 1 || a.groups > (int64_t{1} << 31) / a.classes - 1) {
    return Mismatch(kOp, "expected groups and classes of each from 1 to 2^31 in all, got ",
                    a.groups, " and ", a.classes);
  }
  // All labels may be of one group.
  const int64_t least = std::max<int64_t>(std::min(labels.shape[0], a.classes), 1);
  if (a.count < least || a.count > a.classes) {
    return Mismatch(kOp, "expected ", least, " to ", a.classes, " of a group's ", a.classes,
                    " classes for a batch of ", labels.shape[0], ", got ", a.count);
  }
  return Types{{DType::kI32, {a.groups, a.count}}, labels};
}

// The distinct classes of a group that labels name, ascending, counted from its first.
std::vector<int64_t> NamedClasses(const Array& labels, const SampleAttributes& a, int64_t group) {
  std::vector<int64_t> named;
  for (const double label : labels.values) {
    const int64_t of_group = static_cast<int64_t>(label) - group * a.classes;
    if (of_group >= 0 && of_group < a.classes) named.push_back(of_group);
  }
  std::sort(named.begin(), named.end());
  named.erase(std::unique(named.begin(), named.end()), named.end());
  return named;
}

std::vector<int64_t> Sample(const ReferenceCall& call, int64_t group) {
  const SampleAttributes& a = std::get<SampleAttributes>(call.attributes);
  std::vector<int64_t> sample = NamedClasses(call.inputs[0].array, a, group);
  const size_t named = sample.size();
  std::vector<std::pair<uint32_t, int64_t>> others;
  for (int64_t c = 0; c < a.classes; ++c) {
    if (std::binary_search(sample.begin(), sample.begin() + named, c)) continue;
    others.emplace_back(RandomWord(call.seed, a.key, call.step, group * a.classes + c), c);
  }
  std::sort(others.begin(), others.end());
  for (size_t i = 0; sample.size() < static_cast<size_t>(a.count); ++i) {
    sample.push_back(others[i].second);
  }
  std::sort(a.count == a.classes ? sample.begin() : sample.begin() + named, sample.end());
  return sample;
}

absl::Status ReferenceSample(const ReferenceCall& call) {
  const SampleAttributes& a = std::get<SampleAttributes>(call.attributes);
  const Array& labels = call.inputs[0].array;
  RETURN_IF_ERROR(CheckInRange("sample_classes", "labels", labels, a.groups * a.classes));
  const ShardArray& classes = call.outputs[0];
  const Range groups = classes.box[0];
  for (int64_t g = groups.begin; g < groups.end; ++g) {
    const std::vector<int64_t> sample = Sample(call, g);
    std::copy(sample.begin(), sample.end(),
              call.outputs[0].array.values.begin() + (g - groups.begin) * a.count);
  }
  for (size_t i = 0; i < labels.values.size(); ++i) {
    const int64_t label = static_cast<int64_t>(labels.values[i]);
    const int64_t group = label / a.classes, of_group = label % a.classes;
    const std::vector<int64_t> named = NamedClasses(labels, a, group);
    const int64_t before = std::lower_bound(named.begin(), named.end(), of_group) - named.begin();
    call.outputs[1].array.values[i] =
        static_cast<double>(group * a.count + (a.count == a.classes ? of_group : before));
  }
  return absl::OkStatus();
}

// Every shard needs all labels. No index rule says of the positions that they are whole where the
// groups are split.
absl::StatusOr<std::vector<Signature>> SampleSignatures(const OpCall& call, int64_t shards) {
  std::vector<Signature> signatures = {MakeSignature("", {kWhole}, {kWhole, kWhole})};
  if (shards > 1 && call.outputs[0].shape[0] > 1) {
    signatures.push_back(MakeSignature("g", {kWhole}, {0, kWhole}));
  }
  return signatures;
}

// A draw and four looks at it for each class; scratch of a word a class, counters and the labels.
Cost SampleCost(const OpCall& call) {
  const SampleAttributes& a = std::get<SampleAttributes>(call.attributes);
  const int64_t classes = CountOf({call.outputs[0].shape[0], a.classes});
  const int64_t scratch = CountOf({4, a.classes}) + BytesOf(call.inputs) + (int64_t{1} << 15);
  return Cost{CountOf({16, classes}), CountOf({16, classes}), scratch, {classes}};
}

}  // namespace

const OpDef& SampleClassesOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "sample_classes";
    op.inputs = {{"labels"}};
    op.outputs = {{"classes"}, {"positions"}};
    op.attributes = SampleAttributes();
    op.infer = InferSample;
    op.signatures = SampleSignatures;
    op.cost = SampleCost;
    op.reference = ReferenceSample;
    op.random = true;
    op.cases = {{"groups", SampleAttributes{3, 7, 5, 77}, {I32({5})}, 0, 20},
                {"one", SampleAttributes{1, 9, 4, 5}, {I32({3})}, 0, 8}};
    op.large_cases = {{"", SampleAttributes{5, 9973, 997, 77}, {I32({301})}, 0, 5 * 9973 - 1},
                      {"", SampleAttributes{2, 997, 997, 5}, {I32({301})}, 0, 2 * 997 - 1}};
    op.timing = {Elements(), [](At at) {
                   const int64_t count = std::max<int64_t>(at[0] / 8, 1);
                   return OpCase{"", SampleAttributes{1, at[0], count, 7}, {I32({1})}, 0, 0};
                 }};
    return op;
  }();
  return op;
}

// The graph gives the node its key, from its name.
ClassSample SampleClasses(Tensor labels, int64_t classes, int64_t groups, int64_t count) {
  const std::vector<Tensor> made =
      Apply(SampleClassesOp(), SampleAttributes{groups, classes, count, 0}, {labels});
  return {made[0], made[1]};
}

}  // namespace sluice
