// Updates of the rows of a table that ids name, each once, by the sum of the rows of its gradient.
// A kernel serves both forms of its op: the one that gives the rows changes copies. All have the
// bits of the CPU.
#include <cmath>

#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/sorted_ids.h"
#include "framework/kernels/update_steps.h"

namespace sluice::cuda {
namespace {

#include "framework/kernels/update_steps.inc"

// Scalars in device memory, which are read at every firing; `step` is null where a rule has none.
struct Scalars {
  const float *factor, *learning_rate;
  const int32_t* step;
};

template <int states>
struct States {
  float* at[states];
};

// The rules of ops/update_rule.h: what is computed once a firing, and what is made of one element,
// whose states are at `place`.
struct SgdRule {
  using Attributes = SgdAttributes;
  static constexpr int kStates = 1;  // null of a rule without momentum
  __device__ SgdRule(const SgdAttributes& a, const Scalars& at)
      : nesterov(a.nesterov), step(InLanes(StepOf(a, *at.factor, *at.learning_rate, *at.step))) {}
  __device__ float Of(float gradient, float variable, const States<1>& states,
                      int64_t place) const {
    if (states.at[0] == nullptr) return SgdOf(step, gradient, variable);
    float* const momentum = states.at[0] + place;
    return nesterov ? SgdMomentumOf<true>(step, gradient, variable, momentum)
                    : SgdMomentumOf<false>(step, gradient, variable, momentum);
  }
  bool nesterov;
  SgdLanes step;
};

struct AdamWRule {
  using Attributes = AdamWAttributes;
  static constexpr int kStates = 2;
  __device__ AdamWRule(const AdamWAttributes& a, const Scalars& at)
      : step(InLanes(StepOf(a, *at.factor, *at.learning_rate, *at.step))) {}
  __device__ float Of(float gradient, float variable, const States<2>& states,
                      int64_t place) const {
    return AdamWOf(step, gradient, variable, states.at[0] + place, states.at[1] + place);
  }
  AdamLanes step;
};

struct AdagradRule {
  using Attributes = AdagradAttributes;
  static constexpr int kStates = 1;
  __device__ AdagradRule(const AdagradAttributes& a, const Scalars& at)
      : step(InLanes(StepOf(a, *at.factor, *at.learning_rate, 0))) {}
  __device__ float Of(float gradient, float variable, const States<1>& states,
                      int64_t place) const {
    return AdagradOf(step, gradient, variable, states.at[0] + place);
  }
  AdagradLanes step;
};

struct FtrlRule {
  using Attributes = FtrlAttributes;
  static constexpr int kStates = 2;
  __device__ FtrlRule(const FtrlAttributes& a, const Scalars& at)
      : step(InLanes(StepOf(a, *at.factor, *at.learning_rate, 0))) {}
  // A rate of 0 changes nothing.
  __device__ float Of(float gradient, float variable, const States<2>& states,
                      int64_t place) const {
    if (step.learning_rate == 0) return variable;
    return FtrlOf(step, gradient, variable, states.at[0] + place, states.at[1] + place);
  }
  FtrlLanes step;
};

// Rows that a shard has none of are the identity of the sum that brings the shards' together.
__global__ void __launch_bounds__(256) FillWithIdentity(float* to, int64_t n) {
  const int64_t i = ThreadIndex();
  if (i < n) to[i] = -0.0f;
}

// Changes the table's rows or, with `to`, leaves them and puts each changed row where an id names
// it.
template <typename Rule>
__global__ void __launch_bounds__(256)
    UpdateRows(SortedIds ids, const float* values, typename Rule::Attributes attributes,
               Scalars scalars, float* table, States<Rule::kStates> states, float* to,
               int64_t width) {
  const DistinctRow rows(ids, width);
  if (!rows.IsTaken()) return;
  const Rule rule(attributes, scalars);
  float changed = rows.Sum(values);
  if (!rows.HasColumn()) return;
  const int64_t place = rows.row() * width + rows.column();
  changed = rule.Of(changed, table[place], states, place);
  if (to == nullptr) {
    table[place] = changed;
  } else {
    rows.ForPlaces([&](int64_t at) { to[at * width + rows.column()] = changed; });
  }
}

// The last of rows named more than once counts.
__global__ void __launch_bounds__(256)
    AssignRows(SortedIds ids, const float* values, float* table, int64_t width) {
  const DistinctRow rows(ids, width);
  if (!rows.IsTaken()) return;
  int64_t last = 0;
  rows.ForPlaces([&](int64_t place) { last = place; });
  if (!rows.HasColumn()) return;
  table[rows.row() * width + rows.column()] = values[last * width + rows.column()];
}

// Where an op has its operands: variable, states.., sorted ids, values, factor, learning rate,
// [step]; of sgd its state, which may be missing, is behind the step.
struct Places {
  int state, ids, factor, step;  // -1: none
};

template <typename Rule>
PreparedKernel PrepareUpdateSparse(const KernelSpec& spec, const Places& places) {
  RETURN_IF_ERROR(places.step < 0 ? RequireF32(spec, {places.ids})
                                  : RequireF32(spec, {places.ids, places.step}));
  ASSIGN_OR_RETURN(const auto attributes,
                   ParseAttributes<typename Rule::Attributes>(spec.attributes));
  const TableRows rows(spec.inputs[0]);
  const int64_t n = spec.inputs[places.ids].NumElements() / 2, width = rows.width;
  if (!CanSort(rows, n)) return NoKernel(spec);
  const int written = spec.outputs.empty() ? 0 : static_cast<int>(spec.inputs.size());
  return MakeKernel(
      [=](const KernelContext& context, const Operands& at) -> absl::Status {
        if (n == 0) return absl::OkStatus();
        float* const to = written == 0 ? nullptr : at.at(written);
        if (to != nullptr && width > 0) {
          RETURN_IF_ERROR(Launch(context, FillWithIdentity, GridOf(n * width), to, n * width));
        }
        ASSIGN_OR_RETURN(const SortedIds sorted,
                         TakeSorted(context, HeldRows(rows, context.micro, n),
                                    at.at<uint64_t>(places.ids), n, at.scratch<std::byte>()));
        if (width == 0) return absl::OkStatus();
        const Scalars scalars = {at.at(places.factor), at.at(places.factor + 1),
                                 places.step < 0 ? nullptr : at.at<int32_t>(places.step)};
        States<Rule::kStates> states = {};
        for (int s = 0; s < Rule::kStates && places.state >= 0; ++s) {
          states.at[s] = at.at(places.state + s);
        }
        return Launch(context, UpdateRows<Rule>, DistinctGrid(n, width), sorted,
                      at.at(places.ids + 1), attributes, scalars, at.at(0), states, to, width);
      },
      AlignedBytes(n * 8));
}

}  // namespace

PreparedKernel PrepareSgdSparse(const KernelSpec& spec) {
  return PrepareUpdateSparse<SgdRule>(spec, {spec.inputs.size() > 6 ? 6 : -1, 1, 3, 5});
}
PreparedKernel PrepareAdamWSparse(const KernelSpec& spec) {
  return PrepareUpdateSparse<AdamWRule>(spec, {1, 3, 5, 7});
}
PreparedKernel PrepareAdagradSparse(const KernelSpec& spec) {
  return PrepareUpdateSparse<AdagradRule>(spec, {1, 2, 4, -1});
}
PreparedKernel PrepareFtrlSparse(const KernelSpec& spec) {
  return PrepareUpdateSparse<FtrlRule>(spec, {1, 3, 5, -1});
}

// variable, sorted ids, rows.
PreparedKernel PrepareAssignSparse(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec, {1}));
  const TableRows rows(spec.inputs[0]);
  const int64_t n = spec.inputs[1].NumElements() / 2;
  if (!CanSort(rows, n)) return NoKernel(spec);
  return MakeKernel(
      [=](const KernelContext& context, const Operands& at) -> absl::Status {
        if (n == 0) return absl::OkStatus();
        ASSIGN_OR_RETURN(const SortedIds sorted,
                         TakeSorted(context, HeldRows(rows, context.micro, n), at.at<uint64_t>(1),
                                    n, at.scratch<std::byte>()));
        if (rows.width == 0) return absl::OkStatus();
        return Launch(context, AssignRows, DistinctGrid(n, rows.width), sorted, at.at(2), at.at(0),
                      rows.width);
      },
      AlignedBytes(n * 8));
}

}  // namespace sluice::cuda
