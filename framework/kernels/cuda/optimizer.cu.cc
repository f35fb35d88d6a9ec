// Updates of variables, each one pass over memory, and many of them one launch: a table of what
// each has is the kernel's argument, and a block finds in it the chunk that is its own. Scalars are
// in device memory and are read at every firing; what follows from them is computed in f64, once a
// block. A kernel serves both forms of its op: the one that gives a value writes it elsewhere.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "framework/kernels/calls.h"
#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/elementwise.h"
#include "framework/kernels/cuda/joined_calls.h"
#include "framework/kernels/cuda/moves.h"
#include "framework/kernels/update_steps.h"

namespace sluice::cuda {
namespace {

#include "framework/kernels/update_steps.inc"

// Null where an update has none.
struct Scalars {
  const float *factor = nullptr, *learning_rate = nullptr, *ratio = nullptr;
  const int32_t* step = nullptr;
};

// Attributes that are those of another update, and its steps likewise.
struct DirectionAttributes {
  AdamWAttributes adam;
};
struct DirectionStep {
  AdamWStep adam;
};

SLUICE_INLINE SgdStep StepAt(const SgdAttributes& a, const Scalars& at) {
  return StepOf(a, *at.factor, *at.learning_rate, *at.step);
}
SLUICE_INLINE SgdStep StepAt(const LarsAttributes& a, const Scalars& at) {
  return StepOf(a, *at.factor, *at.learning_rate, static_cast<double>(*at.ratio));
}
SLUICE_INLINE AdamWStep StepAt(const AdamWAttributes& a, const Scalars& at) {
  return StepOf(a, *at.factor, *at.learning_rate, *at.step);
}
SLUICE_INLINE DirectionStep StepAt(const DirectionAttributes& a, const Scalars& at) {
  return {DirectionStepOf(a.adam, *at.factor, *at.step)};
}
SLUICE_INLINE AdagradStep StepAt(const AdagradAttributes& a, const Scalars& at) {
  return StepOf(a, *at.factor, *at.learning_rate, /*step=*/0);
}
SLUICE_INLINE FtrlStep StepAt(const FtrlAttributes& a, const Scalars& at) {
  return StepOf(a, *at.factor, *at.learning_rate, /*step=*/0);
}

// What is written of one element. `s`: its states.
template <int states>
SLUICE_INLINE F Updated(const SgdStep& step, F gradient, F variable, F* s) {
  const SgdLanes lanes = InLanes(step);
  if constexpr (states == 0) return SgdOf(lanes, gradient, variable);
  return step.nesterov ? SgdMomentumOf<true>(lanes, gradient, variable, s)
                       : SgdMomentumOf<false>(lanes, gradient, variable, s);
}
template <int states>
SLUICE_INLINE F Updated(const AdamWStep& step, F gradient, F variable, F* s) {
  return AdamWOf(InLanes(step), gradient, variable, s, s + 1);
}
template <int states>
SLUICE_INLINE F Updated(const DirectionStep& step, F gradient, F variable, F* s) {
  return AdamDirectionOf(InLanes(step.adam), gradient, variable, s, s + 1);
}
template <int states>
SLUICE_INLINE F Updated(const AdagradStep& step, F gradient, F variable, F* s) {
  return AdagradOf(InLanes(step), gradient, variable, s);
}
// A rate of 0 changes nothing.
template <int states>
SLUICE_INLINE F Updated(const FtrlStep& step, F gradient, F variable, F* s) {
  if (step.learning_rate == 0) return variable;
  return FtrlOf(InLanes(step), gradient, variable, s, s + 1);
}

// Of one call. An update has at most two states.
struct UpdateOperands {
  const float *gradient, *from;
  float* to;
  float* state[2];
  Scalars scalars;
  int64_t n, packed;  // elements, and how many of them lie in packs
};

// Elements of a block, so that where one begins depends on nothing but the size of its call. They
// are enough to hide that a thread of each block computes the step, and few enough that a network's
// updates are some waves of blocks.
constexpr int64_t kChunk = 8192;

template <int capacity>
struct UpdateTable {
  UpdateOperands calls[capacity];
  BlocksOfCalls<capacity> blocks;
};
constexpr int kManyCalls = kTableBytes / (sizeof(UpdateOperands) + sizeof(int32_t));

// Of so many elements from i on.
template <int states, int count, typename Step>
SLUICE_INLINE void UpdateAt(const Step& step, const UpdateOperands& at, int64_t i) {
  F gradient[count], variable[count], first[count] = {}, second[count] = {};
  Load(at.gradient + i, gradient);
  Load(at.from + i, variable);
  if constexpr (states > 0) Load(at.state[0] + i, first);
  if constexpr (states > 1) Load(at.state[1] + i, second);
  for (int e = 0; e < count; ++e) {
    F s[2] = {first[e], second[e]};
    variable[e] = Updated<states>(step, gradient[e], variable[e], s);
    first[e] = s[0], second[e] = s[1];
  }
  if constexpr (states > 0) Store(first, at.state[0] + i);
  if constexpr (states > 1) Store(second, at.state[1] + i);
  Store(variable, at.to + i);
}

// One thread of a block finds the step: f64 is slow where a card is not made for it.
template <typename Attributes, int states, int capacity>
__global__ void __launch_bounds__(kElementwiseThreads)
    UpdateKernel(Attributes attributes, UpdateTable<capacity> table) {
  const int call = table.blocks.CallOf(blockIdx.x);
  const UpdateOperands& at = table.calls[call];
  using Step = decltype(StepAt(attributes, at.scalars));
  Step* const shared = SharedMemory<Step>();
  if (threadIdx.x == 0) *shared = StepAt(attributes, at.scalars);
  __syncthreads();
  const Step step = *shared;
  constexpr int kWidth = kPack<float>;
  const int64_t begin = (int64_t{blockIdx.x} - table.blocks.first[call]) * kChunk;
  const int64_t end = begin + kChunk < at.n ? begin + kChunk : at.n;
  const int64_t packed = end < at.packed ? end : at.packed;
  for (int64_t i = begin + kWidth * threadIdx.x; i < packed; i += kWidth * blockDim.x) {
    UpdateAt<states, kWidth>(step, at, i);
  }
  const int64_t rest = begin > at.packed ? begin : at.packed;
  for (int64_t i = rest + threadIdx.x; i < end; i += blockDim.x) UpdateAt<states, 1>(step, at, i);
}

// Gives calls to the stream, as many at once as an argument holds.
template <typename Attributes, int states, int capacity>
class UpdateLauncher {
 public:
  UpdateLauncher(const KernelContext& context, const Attributes& attributes)
      : context_(context), attributes_(attributes) {
    table_.blocks.Clear();
  }

  absl::Status Add(UpdateOperands at) {
    const int64_t blocks = (at.n + kChunk - 1) / kChunk;
    if (!table_.blocks.Holds(blocks)) RETURN_IF_ERROR(Finish());
    const Elements elements = ElementsOf(std::min(at.n, kChunk), kPack<float>, at.gradient, at.from,
                                         at.to, at.state[0], at.state[1]);
    at.packed = elements.wide == 0 ? 0 : at.n / elements.width * elements.width;
    threads_ = std::max(threads_, elements.grid().threads.x);
    table_.calls[table_.blocks.count] = at;
    table_.blocks.Add(blocks);
    return absl::OkStatus();
  }
  absl::Status Finish() {
    if (table_.blocks.count == 0) return absl::OkStatus();
    const Grid grid = {dim3(static_cast<unsigned>(table_.blocks.all())), dim3(threads_),
                       sizeof(StepAt(attributes_, Scalars()))};
    const absl::Status status =
        Launch(context_, UpdateKernel<Attributes, states, capacity>, grid, attributes_, table_);
    table_.blocks.Clear();
    threads_ = 0;
    return status;
  }

 private:
  const KernelContext& context_;
  const Attributes& attributes_;
  UpdateTable<capacity> table_;
  unsigned threads_ = 0;
};

// Numbers of operands; -1 where there is none.
struct Places {
  int gradient, factor, learning_rate, step = -1, ratio = -1;
  int state[2] = {-1, -1};
};

// A call that has elements: how many, and where its operands stand.
struct SizedCall {
  int64_t n;
  CallPlace place;
};

template <int states, int capacity, typename Attributes>
PreparedKernel MakeUpdate(std::vector<SizedCall> calls, const Attributes& attributes,
                          const Places& places) {
  return MakeKernel([=, calls = std::move(calls)](const KernelContext& context,
                                                  const Operands& at) -> absl::Status {
    UpdateLauncher<Attributes, states, capacity> launcher(context, attributes);
    for (const SizedCall& call : calls) {
      const auto pointer = [&](int operand) {
        return operand < 0 ? nullptr : at.at(call.place.operand(operand));
      };
      const Scalars scalars = {
          pointer(places.factor), pointer(places.learning_rate), pointer(places.ratio),
          places.step < 0 ? nullptr : at.at<int32_t>(call.place.operand(places.step))};
      // What it writes stands behind its inputs where it gives a value.
      const int written = call.place.outputs == 0 ? 0 : call.place.inputs;
      RETURN_IF_ERROR(launcher.Add({pointer(places.gradient),
                                    pointer(0),
                                    pointer(written),
                                    {pointer(places.state[0]), pointer(places.state[1])},
                                    scalars,
                                    call.n,
                                    /*packed=*/0}));
    }
    return launcher.Finish();
  });
}

template <int states, typename Attributes>
PreparedKernel PrepareUpdate(const KernelSpec& spec, const Attributes& attributes,
                             const Places& places) {
  std::vector<SizedCall> calls;
  for (int c = 0; c < spec.calls; ++c) {
    const CallPlace place = PlaceOfCall(spec, c);
    const int64_t n = spec.inputs[place.first_input].NumElements();
    if (n > 0) calls.push_back({n, place});
  }
  if (calls.size() <= kFewCalls) {
    return MakeUpdate<states, kFewCalls>(std::move(calls), attributes, places);
  }
  return MakeUpdate<states, kManyCalls>(std::move(calls), attributes, places);
}

// OK if every call's operands are f32, but for the input that is the step, if there is one.
absl::Status RequireF32Calls(const KernelSpec& spec, int step = -1) {
  for (int c = 0; c < spec.calls; ++c) RETURN_IF_ERROR(RequireF32(CallOf(spec, c), {step}));
  return absl::OkStatus();
}

// The rules of ops/update_rule.h. variable, states.., gradient, factor, learning rate, [step]; then
// the value, or nothing.
template <typename Attributes, int states, bool reads_step>
PreparedKernel PrepareRule(const KernelSpec& spec) {
  constexpr int kGradient = 1 + states, kStep = kGradient + 3;
  RETURN_IF_ERROR(RequireF32Calls(spec, reads_step ? kStep : -1));
  ASSIGN_OR_RETURN(const Attributes attributes, ParseAttributes<Attributes>(spec.attributes));
  Places places = {kGradient, kGradient + 1, kGradient + 2};
  if (reads_step) places.step = kStep;
  for (int s = 0; s < states; ++s) places.state[s] = 1 + s;
  return PrepareUpdate<states>(spec, attributes, places);
}

__global__ void __launch_bounds__(32)
    TrustRatioKernel(LarsAttributes attributes, const float* variable_squares,
                     const float* gradient_squares, const float* factor, float* ratio) {
  if (threadIdx.x != 0) return;
  *ratio = TrustRatioOf(attributes, *variable_squares, *gradient_squares, *factor);
}

__global__ void __launch_bounds__(32)
    ClipFactorKernel(ClipAttributes attributes, const float* squares, float* factor) {
  if (threadIdx.x == 0) *factor = ClipFactorOf(attributes, *squares);
}

}  // namespace

// Sums of squares of the variable and of the gradient, factor; ratio.
PreparedKernel PrepareTrustRatio(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  ASSIGN_OR_RETURN(const LarsAttributes attributes,
                   ParseAttributes<LarsAttributes>(spec.attributes));
  return MakeKernel([attributes](const KernelContext& context, const Operands& at) {
    return Launch(context, TrustRatioKernel, GridOver(1), attributes, at.at(0), at.at(1), at.at(2),
                  at.at(3));
  });
}

PreparedKernel PrepareClipFactor(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  ASSIGN_OR_RETURN(const ClipAttributes attributes,
                   ParseAttributes<ClipAttributes>(spec.attributes));
  return MakeKernel([attributes](const KernelContext& context, const Operands& at) {
    return Launch(context, ClipFactorKernel, GridOver(1), attributes, at.at(0), at.at(1));
  });
}

// variable, gradient, factor, learning rate, step, momentum or nothing; then the value or nothing.
PreparedKernel PrepareSgd(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32Calls(spec, 4));
  ASSIGN_OR_RETURN(const SgdAttributes attributes, ParseAttributes<SgdAttributes>(spec.attributes));
  Places places = {1, 2, 3, 4};
  if (PlaceOfCall(spec, 0).inputs == 5) return PrepareUpdate<0>(spec, attributes, places);
  places.state[0] = 5;
  return PrepareUpdate<1>(spec, attributes, places);
}

// variable, momentum, gradient, factor, learning rate, ratio; then the value, or nothing.
PreparedKernel PrepareLars(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32Calls(spec));
  ASSIGN_OR_RETURN(const LarsAttributes attributes,
                   ParseAttributes<LarsAttributes>(spec.attributes));
  return PrepareUpdate<1>(spec, attributes, {2, 3, 4, /*step=*/-1, /*ratio=*/5, {1, -1}});
}

// variable, m, v, gradient, factor, step; then the direction.
PreparedKernel PrepareAdamDirection(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32Calls(spec, 5));
  ASSIGN_OR_RETURN(const AdamWAttributes attributes,
                   ParseAttributes<AdamWAttributes>(spec.attributes));
  return PrepareUpdate<2>(spec, DirectionAttributes{attributes},
                          {3, 4, /*learning_rate=*/-1, 5, /*ratio=*/-1, {1, 2}});
}

PreparedKernel PrepareAdamW(const KernelSpec& spec) {
  return PrepareRule<AdamWAttributes, 2, true>(spec);
}
PreparedKernel PrepareAdagrad(const KernelSpec& spec) {
  return PrepareRule<AdagradAttributes, 1, false>(spec);
}
PreparedKernel PrepareFtrl(const KernelSpec& spec) {
  return PrepareRule<FtrlAttributes, 2, false>(spec);
}

// variable, value.
PreparedKernel PrepareAssign(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  const int64_t bytes = spec.inputs[0].NumBytes();
  return MakeKernel([bytes](const KernelContext& context, const Operands& at) {
    return CopyBytes(context, at.bytes(1), at.bytes(0), bytes);
  });
}

}  // namespace sluice::cuda
