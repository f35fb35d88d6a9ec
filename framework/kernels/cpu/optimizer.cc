// Updates of variables, each one pass over memory. Scalars are read at every firing and what
// follows from them is computed in f64, as the reference implementation does. A kernel serves both
// forms of its op: the one that gives a value copies the variable and changes the copy, so that the
// bits of both are equal.
#include <cmath>
#include <cstring>

#include "framework/kernels/cpu/all_kernels.h"
#include "framework/kernels/cpu/rows.h"

namespace sluice::cpu {
namespace {

SgdStep StepOf(const SgdAttributes& a, double factor, float learning_rate, int32_t step) {
  const double share = step > 1 ? 1 - a.dampening : 1;
  return {static_cast<float>(share * factor), learning_rate, static_cast<float>(a.momentum),
          static_cast<float>(share * a.weight_decay), a.nesterov};
}

// The momentum of LARS has the learning rate in it.
SgdStep StepOf(const LarsAttributes& a, double factor, double learning_rate, double ratio) {
  const double rate = learning_rate * ratio;
  return {static_cast<float>(rate * factor), 1, static_cast<float>(a.momentum),
          static_cast<float>(rate * a.weight_decay), /*nesterov=*/false};
}

AdamWStep StepOf(const AdamWAttributes& a, float factor, float learning_rate, int32_t step) {
  const double correction1 = a.bias_correction ? 1 - std::pow(a.beta1, step) : 1;
  const double correction2 = a.bias_correction ? std::sqrt(1 - std::pow(a.beta2, step)) : 1;
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

// Elements that are copied and then changed while they are in the nearest cache.
constexpr int64_t kPiece = 2048;

// update(begin, end) over all elements of `to`, a variable or, if it is another than `from`, a copy
// of it that is made on the way.
template <typename F>
void UpdateElements(const KernelContext& context, int64_t n, int64_t grain, const float* from,
                    float* to, F&& update) {
  Parallel(context, n, grain, [&](int64_t begin, int64_t end) {
    if (from == to) return update(begin, end);
    for (int64_t at = begin; at < end; at += kPiece) {
      const int64_t piece = std::min(end, at + kPiece);
      std::memcpy(to + at, from + at, (piece - at) * sizeof(float));
      update(at, piece);
    }
  });
}

// The rows forms. update(gradient, row, place): changes one row of the table, whose place in the
// state is given. With `to` the table stays: each row named is copied there and changed, and rows
// that the shard has none of are the identity of the sum that brings the shards' together.
struct NamedRows {
  TableRows rows;
  const int32_t* ids;
  const float* values;
  float* table;
  float* to;  // null: none
  int64_t n;

  template <typename F>
  void Update(const KernelContext& context, std::byte* scratch, F&& update) const {
    if (to != nullptr) std::fill_n(to, n * rows.width, -0.0f);
    const int64_t first = rows.BeginAt(context.micro), of_group = rows.IdsOfGroup(n);
    for (int64_t g = 0; g < rows.groups; ++g) {
      const int64_t begin = g * of_group * rows.width;
      ForEachDistinctRowWithPlaces(
          ids + g * of_group, values + begin, of_group, rows.width, first, first + rows.held,
          scratch, [&](int64_t id, const float* gradient, const RowPlaces& places) {
            const int64_t place = (g * rows.held + id - first) * rows.width;
            if (to == nullptr) return update(gradient, table + place, place);
            UpdateCopies(table + place, to + begin, places,
                         [&](float* row) { update(gradient, row, place); });
          });
    }
  }

 private:
  template <typename F>
  void UpdateCopies(const float* from, float* copies, const RowPlaces& places, F&& update) const {
    float* const row = copies + places[0] * rows.width;
    std::memcpy(row, from, rows.width * sizeof(float));
    update(row);
    for (int64_t i = 1; i < places.size(); ++i) {
      std::memcpy(copies + places[i] * rows.width, row, rows.width * sizeof(float));
    }
  }
};

// Of an update: the operand that it writes, behind its inputs where it gives a value.
int Written(const KernelSpec& spec) {
  return spec.outputs.empty() ? 0 : static_cast<int>(spec.inputs.size());
}

}  // namespace

// Sums of squares of the variable and of the gradient, factor; ratio.
PreparedKernel PrepareTrustRatio(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  ASSIGN_OR_RETURN(const LarsAttributes a, ParseAttributes<LarsAttributes>(spec.attributes));
  return MakeKernel([a](const KernelContext&, const Operands& at) {
    const double length = std::sqrt(static_cast<double>(*at.at(0)));
    const double gradient = *at.at(2) * std::sqrt(static_cast<double>(*at.at(1)));
    const bool either_zero = length == 0 || gradient == 0;
    const double ratio = a.coefficient * length / (gradient + a.weight_decay * length + a.epsilon);
    *at.at(3) = static_cast<float>(either_zero ? 1 : ratio);  // NaN stays NaN
  });
}

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

// variable, gradient, factor, learning rate, step, momentum or nothing; then the value or nothing.
PreparedKernel PrepareSgd(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec, {4}));
  ASSIGN_OR_RETURN(const SgdAttributes attributes, ParseAttributes<SgdAttributes>(spec.attributes));
  const int64_t n = spec.inputs[0].NumElements();
  const bool has_momentum = spec.inputs.size() > 5;
  const int written = Written(spec);
  return MakeKernel([=](const KernelContext& context, const Operands& at) {
    const SgdStep step = StepOf(attributes, *at.at(2), *at.at(3), *at.at<int32_t>(4));
    float* const to = at.at(written);
    UpdateElements(context, n, kCheapGrain, at.at(0), to, [&](int64_t begin, int64_t end) {
      UpdateSgd(step, at.at(1) + begin, to + begin, has_momentum ? at.at(5) + begin : nullptr,
                end - begin);
    });
  });
}

// variable, momentum, gradient, factor, learning rate, ratio; then the value, or nothing.
PreparedKernel PrepareLars(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  ASSIGN_OR_RETURN(const LarsAttributes attributes,
                   ParseAttributes<LarsAttributes>(spec.attributes));
  const int64_t n = spec.inputs[0].NumElements();
  const int written = Written(spec);
  return MakeKernel([=](const KernelContext& context, const Operands& at) {
    const SgdStep step = StepOf(attributes, *at.at(3), *at.at(4), static_cast<double>(*at.at(5)));
    float* const to = at.at(written);
    UpdateElements(context, n, kCheapGrain, at.at(0), to, [&](int64_t begin, int64_t end) {
      UpdateSgd(step, at.at(2) + begin, to + begin, at.at(1) + begin, end - begin);
    });
  });
}

// variable, ids, values, factor, learning rate, step, momentum or nothing; then the rows or
// nothing.
PreparedKernel PrepareSgdSparse(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec, {1, 5}));
  ASSIGN_OR_RETURN(const SgdAttributes attributes, ParseAttributes<SgdAttributes>(spec.attributes));
  const TableRows rows(spec.inputs[0]);
  const int64_t n = spec.inputs[1].NumElements(), width = rows.width;
  const bool has_momentum = spec.inputs.size() > 6;
  const int written = Written(spec);
  return MakeKernel(
      [=](const KernelContext& context, const Operands& at) -> absl::Status {
        const int32_t* ids = at.at<int32_t>(1);
        RETURN_IF_ERROR(CheckIds("sgd_sparse", ids, n, rows.whole));
        const SgdStep step = StepOf(attributes, *at.at(3), *at.at(4), *at.at<int32_t>(5));
        float* const out = written == 0 ? nullptr : at.at(written);
        NamedRows{rows, ids, at.at(2), at.at(0), out, n}.Update(
            context, at.scratch<std::byte>(),
            [&](const float* gradient, float* row, int64_t place) {
              UpdateSgd(step, gradient, row, has_momentum ? at.at(6) + place : nullptr, width);
            });
        return absl::OkStatus();
      },
      DistinctRowScratch(rows.IdsOfGroup(n), width));
}

// variable, m, v, gradient, factor, learning rate, step; then the value, or nothing.
PreparedKernel PrepareAdamW(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec, {6}));
  ASSIGN_OR_RETURN(const AdamWAttributes attributes,
                   ParseAttributes<AdamWAttributes>(spec.attributes));
  const int64_t n = spec.inputs[0].NumElements();
  const int written = Written(spec);
  return MakeKernel([=](const KernelContext& context, const Operands& at) {
    const AdamWStep step = StepOf(attributes, *at.at(4), *at.at(5), *at.at<int32_t>(6));
    float* const to = at.at(written);
    UpdateElements(context, n, kCheapGrain / 2, at.at(0), to, [&](int64_t begin, int64_t end) {
      Vectors().optimizer.adamw(step, at.at(3) + begin, to + begin, at.at(1) + begin,
                                at.at(2) + begin, end - begin);
    });
  });
}

// variable, m, v, gradient, factor, step; then the direction.
PreparedKernel PrepareAdamDirection(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec, {5}));
  ASSIGN_OR_RETURN(const AdamWAttributes attributes,
                   ParseAttributes<AdamWAttributes>(spec.attributes));
  const int64_t n = spec.inputs[0].NumElements();
  return MakeKernel([=](const KernelContext& context, const Operands& at) {
    AdamWStep step = StepOf(attributes, *at.at(4), /*learning_rate=*/1, *at.at<int32_t>(5));
    step.decay = static_cast<float>(attributes.weight_decay);
    Parallel(context, n, kCheapGrain / 2, [&](int64_t begin, int64_t end) {
      Vectors().optimizer.adam_direction(step, at.at(3) + begin, at.at(0) + begin, at.at(1) + begin,
                                         at.at(2) + begin, at.at(6) + begin, end - begin);
    });
  });
}

// variable, m, v, ids, values, factor, learning rate, step; then the rows, or nothing.
PreparedKernel PrepareAdamWSparse(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec, {3, 7}));
  ASSIGN_OR_RETURN(const AdamWAttributes attributes,
                   ParseAttributes<AdamWAttributes>(spec.attributes));
  const TableRows rows(spec.inputs[0]);
  const int64_t n = spec.inputs[3].NumElements(), width = rows.width;
  const int written = Written(spec);
  return MakeKernel(
      [=](const KernelContext& context, const Operands& at) -> absl::Status {
        const int32_t* ids = at.at<int32_t>(3);
        RETURN_IF_ERROR(CheckIds("adamw_sparse", ids, n, rows.whole));
        const AdamWStep step = StepOf(attributes, *at.at(5), *at.at(6), *at.at<int32_t>(7));
        float* const out = written == 0 ? nullptr : at.at(written);
        NamedRows{rows, ids, at.at(4), at.at(0), out, n}.Update(
            context, at.scratch<std::byte>(),
            [&](const float* gradient, float* row, int64_t place) {
              Vectors().optimizer.adamw(step, gradient, row, at.at(1) + place, at.at(2) + place,
                                        width);
            });
        return absl::OkStatus();
      },
      DistinctRowScratch(rows.IdsOfGroup(n), width));
}

// variable, value.
PreparedKernel PrepareAssign(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  const int64_t n = spec.inputs[0].NumElements();
  return MakeKernel([n](const KernelContext& context, const Operands& at) {
    Parallel(context, n, 4 * kCheapGrain, [&](int64_t begin, int64_t end) {
      std::memcpy(at.at(0) + begin, at.at(1) + begin, (end - begin) * sizeof(float));
    });
  });
}

// variable, ids, rows. In order, as the last of rows named more than once counts.
PreparedKernel PrepareAssignSparse(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec, {1}));
  const TableRows rows(spec.inputs[0]);
  const int64_t n = spec.inputs[1].NumElements(), width = rows.width;
  const int64_t of_group = rows.IdsOfGroup(n);
  return MakeKernel([=](const KernelContext& context, const Operands& at) -> absl::Status {
    const int32_t* ids = at.at<int32_t>(1);
    RETURN_IF_ERROR(CheckIds("assign_sparse", ids, n, rows.whole));
    const int64_t first = rows.BeginAt(context.micro);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t row = ids[i] - first;
      if (row < 0 || row >= rows.held) continue;
      std::memcpy(at.at(0) + (i / of_group * rows.held + row) * width, at.at(2) + i * width,
                  width * sizeof(float));
    }
    return absl::OkStatus();
  });
}

}  // namespace sluice::cpu
