#include "framework/conformance/case_values.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "framework/base/status.h"
#include "framework/ops/all_ops.h"
#include "framework/tensor/random.h"

namespace sluice {

double UniformDraw(uint64_t seed, int64_t index, double low, double high) {
  const double unit = RandomWord(seed, /*key=*/17, /*step=*/0, index) / 4294967296.0;
  return low + unit * (high - low);
}

namespace {

// What `sort_ids` would make of ids that are drawn: the ids of the entries (ops/update.h) in order,
// of each group by themselves, and each place once.
void SortEntries(Array* entries) {
  const int rank = entries->shape.rank();
  const int64_t of_group = entries->shape[rank - 2];
  const int64_t groups = entries->shape.NumElements() / std::max<int64_t>(2 * of_group, 1);
  for (int64_t g = 0; g < groups; ++g) {
    double* const group = entries->values.data() + 2 * g * of_group;
    std::vector<std::pair<double, int64_t>> sorted;
    for (int64_t i = 0; i < of_group; ++i) sorted.emplace_back(group[2 * i + 1], i);
    std::sort(sorted.begin(), sorted.end());
    for (int64_t i = 0; i < of_group; ++i) {
      group[2 * i] = static_cast<double>(sorted[i].second);
      group[2 * i + 1] = sorted[i].first;
    }
  }
}

// What cuDNN takes off slopes has the rounding of y, which is that of v's mean where it has one
// (docs/cuda.md): values of v and dy lie around nothing.
void Center(const OpCase& op_case, CaseValues* values) {
  for (const size_t i : {2, 5}) {
    Array& array = values->inputs[i];
    for (double& value : array.values) value -= (op_case.low + op_case.high) / 2;
    array = ToArray(FromArray(array, values->input_types[i].dtype));
  }
}

// In bf16 an attention's gradient trusts y and the log-sum-exps, which are those of its forward.
absl::Status RunForward(const OpDef& gradient, const OpCase& op_case, CaseValues* values) {
  const OpDef& forward = *FindOp(absl::StripSuffix(gradient.name, "_gradient"));
  std::vector<ShardArray> inputs, outputs;
  for (size_t i = 0; i < values->inputs.size(); ++i) {
    if (i >= 3 && i <= 5) continue;  // y, the log-sum-exps, dy
    const TensorType& type = values->input_types[i];
    inputs.push_back({type, WholeBox(type.shape), values->inputs[i]});
  }
  for (const size_t i : {3, 4}) {
    const TensorType& type = values->input_types[i];
    outputs.push_back({type, WholeBox(type.shape), Array(type.shape)});
  }
  RETURN_IF_ERROR(forward.reference(
      {op_case.attributes, absl::MakeSpan(inputs), absl::MakeSpan(outputs), kCaseSeed, kCaseStep}));
  for (const size_t i : {0, 1}) {
    values->inputs[3 + i] = ToArray(FromArray(outputs[i].array, values->input_types[3 + i].dtype));
  }
  return absl::OkStatus();
}

}  // namespace

bool Updates(const OpDef& op, size_t input) {
  return op.inputs[std::min(input, op.inputs.size() - 1)].updates;
}

absl::StatusOr<CaseValues> RunWhole(const OpDef& op, const OpCase& op_case, uint64_t seed) {
  CaseValues values;
  values.input_types = op_case.inputs;
  const OpCall call = {op_case.attributes, values.input_types, {}};
  ASSIGN_OR_RETURN(values.output_types, op.infer(call));
  int64_t drawn = 0;
  for (const TensorType& type : values.input_types) {
    Array array(type.shape);
    for (double& value : array.values) {
      if (!IsFloat(type.dtype)) {
        value = std::floor(UniformDraw(seed, drawn++, op_case.low, op_case.high + 1));
      } else {
        value = UniformDraw(seed, drawn++, op_case.low, op_case.high);
      }
    }
    if (InputPort(op, values.inputs.size()).name == "sorted_ids") SortEntries(&array);
    // Eight bits are so few that rounding them would be most of what results differ by.
    if (type.dtype == DType::kBF16) array = ToArray(FromArray(array, DType::kBF16));
    values.inputs.push_back(std::move(array));
  }
  if (absl::EndsWith(op.name, "attention_gradient") &&
      values.input_types[0].dtype == DType::kBF16) {
    Center(op_case, &values);
    RETURN_IF_ERROR(RunForward(op, op_case, &values));
  }
  std::vector<ShardArray> inputs, outputs;
  for (size_t i = 0; i < values.inputs.size(); ++i) {
    const TensorType& type = values.input_types[i];
    inputs.push_back({type, WholeBox(type.shape), values.inputs[i]});
  }
  for (const TensorType& type : values.output_types) {
    outputs.push_back({type, WholeBox(type.shape), Array(type.shape)});
  }
  const ReferenceCall reference = {op_case.attributes, absl::MakeSpan(inputs),
                                   absl::MakeSpan(outputs), kCaseSeed, kCaseStep};
  RETURN_IF_ERROR(AddContext(op.reference(reference), absl::StrCat(op.name, "/", op_case.name)));
  for (ShardArray& shard : inputs) values.updated.push_back(std::move(shard.array));
  for (ShardArray& shard : outputs) values.outputs.push_back(std::move(shard.array));
  return values;
}

}  // namespace sluice
