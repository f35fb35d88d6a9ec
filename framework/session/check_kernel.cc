#include "framework/session/check_kernel.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/graph/op_def.h"
#include "framework/kernels/calls.h"
#include "framework/ops/all_ops.h"

namespace sluice {
namespace {

absl::Status CheckCount(const OpDef& op, const KernelSpec& spec) {
  const bool variadic = !op.inputs.empty() && op.inputs.back().variadic;
  const size_t least = op.inputs.size() - (variadic ? 1 : 0);
  const size_t inputs = spec.inputs.size();
  if (inputs >= least && (variadic || inputs == least) && spec.outputs.size() == op.outputs.size())
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("expected ", least, variadic ? " or more" : "", " inputs and ",
                   op.outputs.size(), " outputs, got ", inputs, " and ", spec.outputs.size()));
}

std::vector<TensorType> LogicalTypes(const std::vector<Shard>& shards) {
  std::vector<TensorType> types;
  for (const Shard& shard : shards) types.push_back({shard.dtype, shard.logical});
  return types;
}

// What one signature splits is cut alike wherever it is, and what none splits is whole: so the
// shards of a call have extents that fit each other as those of the logical tensors do.
class ExtentChecker {
 public:
  explicit ExtentChecker(const KernelSpec& spec) : spec_(spec) {
    for (size_t n = 0; n < spec.inputs.size() + spec.outputs.size(); ++n) {
      split_.emplace_back(Operand(n).logical.rank(), false);
    }
  }

  absl::Status Add(const Signature& signature) {
    const Shard* first = nullptr;
    int first_dim = -1;
    for (size_t n = 0; n < split_.size(); ++n) {
      const Sbp sbp = n < spec_.inputs.size() ? signature.inputs[n]
                                              : signature.outputs[n - spec_.inputs.size()];
      if (!sbp.is_split()) continue;
      const Shard& shard = Operand(n);
      const int dim = sbp.dim;
      split_[n][dim] = true;
      if (first == nullptr) {
        first = &shard;
        first_dim = dim;
      } else if (shard.local[dim] != first->local[first_dim]) {
        return Wrong(n, dim, first->local[first_dim]);
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckWhole() const {
    for (size_t n = 0; n < split_.size(); ++n) {
      for (size_t d = 0; d < split_[n].size(); ++d) {
        const Shard& shard = Operand(n);
        const int dim = static_cast<int>(d);
        if (split_[n][d] || shard.local[dim] == shard.logical[dim]) continue;
        return Wrong(n, dim, shard.logical[dim]);
      }
    }
    return absl::OkStatus();
  }

 private:
  const Shard& Operand(size_t n) const {
    return n < spec_.inputs.size() ? spec_.inputs[n] : spec_.outputs[n - spec_.inputs.size()];
  }
  absl::Status Wrong(size_t n, int dim, int64_t expected) const {
    return absl::InvalidArgumentError(absl::StrCat("operand ", n, ", dimension ", dim,
                                                   ": expected ", expected, " elements, got ",
                                                   Operand(n).ToString()));
  }
  const KernelSpec& spec_;
  std::vector<std::vector<bool>> split_;  // by operand, inputs first, and dimension
};

absl::Status CheckTakes(const OpDef& op, const KernelSpec& spec) {
  for (size_t output = 0; output < spec.takes.size(); ++output) {
    if (spec.takes[output] == 0) continue;
    const size_t input = static_cast<size_t>(spec.takes[output]) - 1;  // of another call: too large
    const std::string where =
        absl::StrCat("output ", output, " cannot take the bytes of input ", input);
    if (!IsInPlace(op, input)) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": ", op.name, " reads on behind it"));
    }
    if (input < spec.inputs.size() && spec.inputs[input].dtype == spec.outputs[output].dtype &&
        spec.inputs[input].local == spec.outputs[output].local) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        where, ": expected an input of the same call and of ", spec.outputs[output].ToString(),
        ", got ", input < spec.inputs.size() ? spec.inputs[input].ToString() : "none"));
  }
  return absl::OkStatus();
}

absl::Status CheckCall(const OpDef& op, const KernelSpec& spec) {
  RETURN_IF_ERROR(CheckCount(op, spec));
  RETURN_IF_ERROR(CheckTakes(op, spec));
  Attributes attributes = op.attributes;
  RETURN_IF_ERROR(ParseAttributesInto(spec.attributes, &attributes));
  const std::vector<TensorType> inputs = LogicalTypes(spec.inputs);
  const std::vector<TensorType> outputs = LogicalTypes(spec.outputs);
  ASSIGN_OR_RETURN(const std::vector<TensorType> inferred, op.infer({attributes, inputs, {}}));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (i < inferred.size() && inferred[i] == outputs[i]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("output ", i, ": expected ",
                     i < inferred.size() ? ToString(inferred[i]) : std::string("none"), ", got ",
                     ToString(outputs[i])));
  }
  ASSIGN_OR_RETURN(const std::vector<Signature> signatures,
                   SignaturesOf(op, {attributes, inputs, outputs}, /*shards=*/2));
  ExtentChecker extents(spec);
  for (const Signature& signature : signatures) RETURN_IF_ERROR(extents.Add(signature));
  return extents.CheckWhole();
}

}  // namespace

absl::Status CheckKernel(const KernelSpec& spec) {
  // What has no op is a kind of instruction, whose operands the plan's validation knows.
  const OpDef* const op = FindOp(spec.op);
  if (op == nullptr || op->infer == nullptr) return absl::OkStatus();
  if (spec.calls == 1) return CheckCall(*op, spec);
  for (int call = 0; call < spec.calls; ++call) {
    RETURN_IF_ERROR(AddContext(CheckCall(*op, CallOf(spec, call)), absl::StrCat("call ", call)));
  }
  return absl::OkStatus();
}

}  // namespace sluice
