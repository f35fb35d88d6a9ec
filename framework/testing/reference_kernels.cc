#include "framework/testing/reference_kernels.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/kernels/calls.h"
#include "framework/ops/all_ops.h"
#include "framework/tensor/array.h"

namespace sluice {
namespace {

class ReferenceKernel : public Kernel {
 public:
  ReferenceKernel(const OpDef* op, Attributes attributes, const KernelSpec& spec)
      : op_(op), attributes_(std::move(attributes)), spec_(spec) {}

  absl::Status Launch(const KernelContext& firing, std::byte* const* operands,
                      std::byte*) override {
    const auto load = [&](const Shard& shard, const std::byte* data) {
      ShardArray array;
      array.logical = {shard.dtype, shard.logical};
      array.box = shard.BoxAt(firing.micro);
      array.array = Array(shard.local);
      for (size_t i = 0; data != nullptr && i < array.array.values.size(); ++i) {
        array.array.values[i] = LoadElement(shard.dtype, data, static_cast<int64_t>(i));
      }
      return array;
    };
    const auto store = [](const ShardArray& array, std::byte* data) {
      for (size_t i = 0; i < array.array.values.size(); ++i) {
        StoreElement(array.logical.dtype, data, static_cast<int64_t>(i), array.array.values[i]);
      }
    };
    std::vector<ShardArray> inputs, outputs;
    for (size_t i = 0; i < spec_.inputs.size(); ++i) {
      inputs.push_back(load(spec_.inputs[i], operands[i]));
    }
    for (const Shard& shard : spec_.outputs) outputs.push_back(load(shard, nullptr));
    RETURN_IF_ERROR(op_->reference(
        {attributes_, absl::MakeSpan(inputs), absl::MakeSpan(outputs), firing.seed, firing.step}));
    for (size_t i = 0; i < inputs.size(); ++i) {
      const size_t port = std::min(i, op_->inputs.size() - 1);
      if (op_->inputs[port].updates) store(inputs[i], operands[i]);
    }
    for (size_t i = 0; i < outputs.size(); ++i) store(outputs[i], operands[inputs.size() + i]);
    return absl::OkStatus();
  }

 private:
  const OpDef* op_;
  Attributes attributes_;
  KernelSpec spec_;
};

class ReferenceFold : public Kernel {
 public:
  explicit ReferenceFold(const KernelSpec& spec) : spec_(spec) {}

  absl::Status Launch(const KernelContext& firing, std::byte* const* operands,
                      std::byte*) override {
    const Shard& out = spec_.outputs[0];
    std::byte* const target = operands[spec_.inputs.size()];
    if (spec_.fill_identity) {
      for (int64_t i = 0; i < out.NumElements(); ++i) {
        StoreElement(out.dtype, target, i, IdentityOf(spec_.reduction));
      }
    }
    for (const FoldRegion& region : spec_.regions) {
      if (region.micro != 0 && region.micro - 1 != firing.micro) continue;
      const int rank = region.extent.rank();
      Shape at = region.extent;
      for (int d = 0; d < rank; ++d) at[d] = 0;
      for (int64_t n = 0; n < region.extent.NumElements(); ++n) {
        std::vector<double> stack;
        for (int f : region.fold) {
          if (f < 0) {
            const double b = stack.back();
            stack.pop_back();
            stack.back() = Reduce(spec_.reduction, stack.back(), b);
            continue;
          }
          int64_t index = region.source_offsets[f];
          for (int d = 0; d < rank; ++d) index += at[d] * region.source_strides[f][d];
          stack.push_back(LoadElement(out.dtype, operands[region.sources[f]], index));
        }
        int64_t index = region.offset;
        for (int d = 0; d < rank; ++d) index += at[d] * region.strides[d];
        StoreElement(out.dtype, target, index, stack[0]);
        for (int d = rank - 1; d >= 0 && ++at[d] == region.extent[d]; --d) at[d] = 0;
      }
    }
    return absl::OkStatus();
  }

 private:
  KernelSpec spec_;
};

class ReferenceAccumulate : public Kernel {
 public:
  explicit ReferenceAccumulate(const KernelSpec& spec) : spec_(spec) {}

  absl::Status Launch(const KernelContext& firing, std::byte* const* operands,
                      std::byte*) override {
    const Shard& shard = spec_.outputs[0];
    for (int64_t i = 0; i < shard.NumElements(); ++i) {
      double value = LoadElement(shard.dtype, operands[0], i);
      if (firing.micro > 0) {
        value = Reduce(spec_.reduction, LoadElement(shard.dtype, operands[1], i), value);
      }
      StoreElement(shard.dtype, operands[1], i, value);
    }
    return absl::OkStatus();
  }

 private:
  KernelSpec spec_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PrepareReferenceKernel(const KernelSpec& spec) {
  if (spec.calls > 1) return PrepareEachCall(spec, PrepareReferenceKernel);
  if (spec.op == "fold") return std::make_unique<ReferenceFold>(spec);
  if (spec.op == "accumulate") return std::make_unique<ReferenceAccumulate>(spec);
  const OpDef* op = FindOp(spec.op);
  if (op == nullptr) {
    return absl::NotFoundError(absl::StrCat("no op of ops/op_list.inc is called ", spec.op));
  }
  Attributes attributes = op->attributes;
  RETURN_IF_ERROR(AddContext(ParseAttributesInto(spec.attributes, &attributes), spec.scope));
  return std::make_unique<ReferenceKernel>(op, std::move(attributes), spec);
}

}  // namespace sluice
