// Updates of variables in place, each one pass over memory. Scalars are read at every firing and
// what follows from them is computed in f64, as the reference implementation does.
#include <cmath>

#include "framework/kernels/cpu/all_kernels.h"
#include "framework/kernels/cpu/rows.h"

namespace sluice::cpu {
namespace {

SgdStep StepOf(const SgdAttributes& a, float factor, float learning_rate) {
  return {factor, learning_rate, static_cast<float>(a.momentum),
          static_cast<float>(a.weight_decay)};
}

AdamWStep StepOf(const AdamWAttributes& a, float factor, float learning_rate, int32_t step) {
  const double correction1 = 1 - std::pow(a.beta1, step);
  const double correction2 = std::sqrt(1 - std::pow(a.beta2, step));
  AdamWStep made;
  made.factor = factor;
  made.beta1 = static_cast<float>(a.beta1);
  made.one_minus_beta1 = static_cast<float>(1 - a.beta1);
  made.beta2 = static_cast<float>(a.beta2);
  made.one_minus_beta2 = static_cast<float>(1 - a.beta2);
  made.decay = static_cast<float>(1 - learning_rate * a.weight_decay);
  made.rate = static_cast<float>(learning_rate / correction1);
  made.root = static_cast<float>(1 / correction2);
  made.epsilon = static_cast<float>(a.epsilon);
  return made;
}

void UpdateSgd(const SgdStep& step, const float* gradient, float* variable, float* momentum,
               int64_t n) {
  if (momentum != nullptr) {
    Vectors().optimizer.sgd_momentum(step, gradient, variable, momentum, n);
  } else {
    Vectors().optimizer.sgd(step, gradient, variable, n);
  }
}

}  // namespace

PreparedKernel PrepareClipFactor(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  ASSIGN_OR_RETURN(const ClipAttributes attributes,
                   ParseAttributes<ClipAttributes>(spec.attributes));
  const double max_norm = attributes.max_norm;
  return MakeKernel([max_norm](const KernelContext&, const Operands& at) {
    const double factor = max_norm / (std::sqrt(static_cast<double>(*at.at(0))) + 1e-6);
    *at.at(1) = static_cast<float>(factor > 1 ? 1 : factor);  // NaN stays NaN
  });
}

// variable, gradient, factor, learning rate, momentum or nothing.
PreparedKernel PrepareSgd(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  ASSIGN_OR_RETURN(const SgdAttributes attributes, ParseAttributes<SgdAttributes>(spec.attributes));
  const int64_t n = spec.inputs[0].NumElements();
  const bool has_momentum = spec.inputs.size() > 4;
  return MakeKernel([=](const KernelContext& context, const Operands& at) {
    const SgdStep step = StepOf(attributes, *at.at(2), *at.at(3));
    Parallel(context, n, kCheapGrain, [&](int64_t begin, int64_t end) {
      UpdateSgd(step, at.at(1) + begin, at.at(0) + begin, has_momentum ? at.at(4) + begin : nullptr,
                end - begin);
    });
  });
}

// variable, ids, values, factor, learning rate, momentum or nothing.
PreparedKernel PrepareSgdSparse(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec, {1}));
  ASSIGN_OR_RETURN(const SgdAttributes attributes, ParseAttributes<SgdAttributes>(spec.attributes));
  const TableRows rows(spec.inputs[0]);
  const int64_t n = spec.inputs[1].NumElements(), width = spec.inputs[0].local[1];
  const bool has_momentum = spec.inputs.size() > 5;
  return MakeKernel(
      [=](const KernelContext& context, const Operands& at) -> absl::Status {
        const int32_t* ids = at.at<int32_t>(1);
        RETURN_IF_ERROR(CheckIds("sgd_sparse", ids, n, rows.whole));
        const SgdStep step = StepOf(attributes, *at.at(3), *at.at(4));
        const int64_t first = rows.BeginAt(context.micro);
        ForEachDistinctRow(ids, at.at(2), n, width, first, first + rows.held,
                           at.scratch<std::byte>(), [&](int64_t id, const float* gradient) {
                             const int64_t place = (id - first) * width;
                             UpdateSgd(step, gradient, at.at(0) + place,
                                       has_momentum ? at.at(5) + place : nullptr, width);
                           });
        return absl::OkStatus();
      },
      DistinctRowScratch(n, width));
}

// variable, m, v, gradient, factor, learning rate, step.
PreparedKernel PrepareAdamW(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec, {6}));
  ASSIGN_OR_RETURN(const AdamWAttributes attributes,
                   ParseAttributes<AdamWAttributes>(spec.attributes));
  const int64_t n = spec.inputs[0].NumElements();
  return MakeKernel([=](const KernelContext& context, const Operands& at) {
    const AdamWStep step = StepOf(attributes, *at.at(4), *at.at(5), *at.at<int32_t>(6));
    Parallel(context, n, kCheapGrain / 2, [&](int64_t begin, int64_t end) {
      Vectors().optimizer.adamw(step, at.at(3) + begin, at.at(0) + begin, at.at(1) + begin,
                                at.at(2) + begin, end - begin);
    });
  });
}

// variable, m, v, ids, values, factor, learning rate, step.
PreparedKernel PrepareAdamWSparse(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec, {3, 7}));
  ASSIGN_OR_RETURN(const AdamWAttributes attributes,
                   ParseAttributes<AdamWAttributes>(spec.attributes));
  const TableRows rows(spec.inputs[0]);
  const int64_t n = spec.inputs[3].NumElements(), width = spec.inputs[0].local[1];
  return MakeKernel(
      [=](const KernelContext& context, const Operands& at) -> absl::Status {
        const int32_t* ids = at.at<int32_t>(3);
        RETURN_IF_ERROR(CheckIds("adamw_sparse", ids, n, rows.whole));
        const AdamWStep step = StepOf(attributes, *at.at(5), *at.at(6), *at.at<int32_t>(7));
        const int64_t first = rows.BeginAt(context.micro);
        ForEachDistinctRow(ids, at.at(4), n, width, first, first + rows.held,
                           at.scratch<std::byte>(), [&](int64_t id, const float* gradient) {
                             const int64_t place = (id - first) * width;
                             Vectors().optimizer.adamw(step, gradient, at.at(0) + place,
                                                       at.at(1) + place, at.at(2) + place, width);
                           });
        return absl::OkStatus();
      },
      DistinctRowScratch(n, width));
}

}  // namespace sluice::cpu
