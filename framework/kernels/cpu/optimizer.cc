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

SgdStep StepOf(const SgdAttributes& a, float factor, float learning_rate) {
  return {factor, learning_rate, static_cast<float>(a.momentum), static_cast<float>(a.weight_decay),
          a.nesterov};
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
// state is given. With `rows` the table stays: each row named is copied there and changed, and rows
// that the shard has none of are the identity of the sum that brings the shards' together.
struct NamedRows {
  const int32_t* ids;
  const float* values;
  float* table;
  float* rows;  // null: none
  int64_t n, width;

  template <typename F>
  void Update(int64_t first, int64_t held, std::byte* scratch, F&& update) const {
    if (rows != nullptr) std::fill_n(rows, n * width, -0.0f);
    ForEachDistinctRowWithPlaces(ids, values, n, width, first, first + held, scratch,
                                 [&](int64_t id, const float* gradient, const RowPlaces& places) {
                                   const int64_t place = (id - first) * width;
                                   if (rows == nullptr)
                                     return update(gradient, table + place, place);
                                   float* const row = rows + places[0] * width;
                                   std::memcpy(row, table + place, width * sizeof(float));
                                   update(gradient, row, place);
                                   for (int64_t i = 1; i < places.size(); ++i) {
                                     std::memcpy(rows + places[i] * width, row,
                                                 width * sizeof(float));
                                   }
                                 });
  }
};

// Of an update: the operand that it writes, behind its inputs where it gives a value.
int Written(const KernelSpec& spec) {
  return spec.outputs.empty() ? 0 : static_cast<int>(spec.inputs.size());
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

// variable, gradient, factor, learning rate, momentum or nothing; then the value or nothing.
PreparedKernel PrepareSgd(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  ASSIGN_OR_RETURN(const SgdAttributes attributes, ParseAttributes<SgdAttributes>(spec.attributes));
  const int64_t n = spec.inputs[0].NumElements();
  const bool has_momentum = spec.inputs.size() > 4;
  const int written = Written(spec);
  return MakeKernel([=](const KernelContext& context, const Operands& at) {
    const SgdStep step = StepOf(attributes, *at.at(2), *at.at(3));
    float* const to = at.at(written);
    UpdateElements(context, n, kCheapGrain, at.at(0), to, [&](int64_t begin, int64_t end) {
      UpdateSgd(step, at.at(1) + begin, to + begin, has_momentum ? at.at(4) + begin : nullptr,
                end - begin);
    });
  });
}

// variable, ids, values, factor, learning rate, momentum or nothing; then the rows or nothing.
PreparedKernel PrepareSgdSparse(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec, {1}));
  ASSIGN_OR_RETURN(const SgdAttributes attributes, ParseAttributes<SgdAttributes>(spec.attributes));
  const TableRows rows(spec.inputs[0]);
  const int64_t n = spec.inputs[1].NumElements(), width = spec.inputs[0].local[1];
  const bool has_momentum = spec.inputs.size() > 5;
  const int written = Written(spec);
  return MakeKernel(
      [=](const KernelContext& context, const Operands& at) -> absl::Status {
        const int32_t* ids = at.at<int32_t>(1);
        RETURN_IF_ERROR(CheckIds("sgd_sparse", ids, n, rows.whole));
        const SgdStep step = StepOf(attributes, *at.at(3), *at.at(4));
        float* const out = written == 0 ? nullptr : at.at(written);
        NamedRows{ids, at.at(2), at.at(0), out, n, width}.Update(
            rows.BeginAt(context.micro), rows.held, at.scratch<std::byte>(),
            [&](const float* gradient, float* row, int64_t place) {
              UpdateSgd(step, gradient, row, has_momentum ? at.at(5) + place : nullptr, width);
            });
        return absl::OkStatus();
      },
      DistinctRowScratch(n, width));
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

// variable, m, v, ids, values, factor, learning rate, step; then the rows, or nothing.
PreparedKernel PrepareAdamWSparse(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec, {3, 7}));
  ASSIGN_OR_RETURN(const AdamWAttributes attributes,
                   ParseAttributes<AdamWAttributes>(spec.attributes));
  const TableRows rows(spec.inputs[0]);
  const int64_t n = spec.inputs[3].NumElements(), width = spec.inputs[0].local[1];
  const int written = Written(spec);
  return MakeKernel(
      [=](const KernelContext& context, const Operands& at) -> absl::Status {
        const int32_t* ids = at.at<int32_t>(3);
        RETURN_IF_ERROR(CheckIds("adamw_sparse", ids, n, rows.whole));
        const AdamWStep step = StepOf(attributes, *at.at(5), *at.at(6), *at.at<int32_t>(7));
        float* const out = written == 0 ? nullptr : at.at(written);
        NamedRows{ids, at.at(4), at.at(0), out, n, width}.Update(
            rows.BeginAt(context.micro), rows.held, at.scratch<std::byte>(),
            [&](const float* gradient, float* row, int64_t place) {
              Vectors().optimizer.adamw(step, gradient, row, at.at(1) + place, at.at(2) + place,
                                        width);
            });
        return absl::OkStatus();
      },
      DistinctRowScratch(n, width));
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
  const int64_t n = spec.inputs[1].NumElements(), width = spec.inputs[0].local[1];
  return MakeKernel([=](const KernelContext& context, const Operands& at) -> absl::Status {
    const int32_t* ids = at.at<int32_t>(1);
    RETURN_IF_ERROR(CheckIds("assign_sparse", ids, n, rows.whole));
    const int64_t first = rows.BeginAt(context.micro);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t row = ids[i] - first;
      if (row < 0 || row >= rows.held) continue;
      std::memcpy(at.at(0) + row * width, at.at(2) + i * width, width * sizeof(float));
    }
    return absl::OkStatus();
  });
}

}  // namespace sluice::cpu
