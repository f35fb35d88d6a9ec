// Casts between types of elements: of one tensor, and of many at once, as those of all parameters
// to bf16 are one instruction (compiler/join_calls.h).
#include <algorithm>
#include <utility>
#include <vector>

#include "framework/base/status.h"
#include "framework/kernels/calls.h"
#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/elementwise.h"
#include "framework/kernels/cuda/joined_calls.h"

namespace sluice::cuda {
namespace {

template <int count, typename From, typename To>
SLUICE_INLINE void CastAt(const From* x, To* y, int64_t i) {
  F a[count];
  Load(x + i, a);
  Store(a, y + i);
}

// Between any two types, by way of an f64, which holds each number of every one.
SLUICE_INLINE double LoadNumber(DType dtype, const std::byte* p, int64_t i) {
  switch (dtype) {
    case DType::kF32:
      return reinterpret_cast<const float*>(p)[i];
    case DType::kF64:
      return reinterpret_cast<const double*>(p)[i];
    case DType::kBF16:
      return Widen(reinterpret_cast<const uint16_t*>(p)[i]);
    case DType::kI32:
      return reinterpret_cast<const int32_t*>(p)[i];
    case DType::kU8:
      return reinterpret_cast<const uint8_t*>(p)[i];
  }
  return 0;
}
SLUICE_INLINE void StoreNumber(DType dtype, double value, std::byte* p, int64_t i) {
  switch (dtype) {
    case DType::kF32:
      reinterpret_cast<float*>(p)[i] = static_cast<float>(value);
      return;
    case DType::kF64:
      reinterpret_cast<double*>(p)[i] = value;
      return;
    case DType::kBF16:
      Narrow(static_cast<float>(value), reinterpret_cast<uint16_t*>(p) + i);
      return;
    case DType::kI32:
      reinterpret_cast<int32_t*>(p)[i] = static_cast<int32_t>(value);
      return;
    case DType::kU8:
      reinterpret_cast<uint8_t*>(p)[i] = static_cast<uint8_t>(value);
      return;
  }
}
__global__ void __launch_bounds__(kElementwiseThreads)
    CastAnyKernel(DType from, const std::byte* x, DType to, std::byte* y, int64_t n) {
  for (int64_t i = ThreadIndex(); i < n; i += NumThreads()) {
    StoreNumber(to, LoadNumber(from, x, i), y, i);
  }
}

// Of one call: elements, of which the first `packed` go by packs.
template <typename From, typename To>
struct CastOperands {
  const From* x;
  To* y;
  int64_t n, packed;
};
template <typename From, typename To, int capacity>
struct CastTable {
  CastOperands<From, To> calls[capacity];
  BlocksOfCalls<capacity> blocks;
};
constexpr int kManyCalls = kTableBytes / (sizeof(CastOperands<float, uint16_t>) + sizeof(int32_t));
// Elements of a block: four packs of each thread.
constexpr int64_t kChunk = 4 * kPack<uint16_t> * kElementwiseThreads;

template <typename From, typename To, int capacity>
__global__ void __launch_bounds__(kElementwiseThreads)
    CastKernel(CastTable<From, To, capacity> table) {
  const int call = table.blocks.CallOf(blockIdx.x);
  const CastOperands<From, To>& at = table.calls[call];
  constexpr int kWidth = kPack<uint16_t>;
  const int64_t begin = (int64_t{blockIdx.x} - table.blocks.first[call]) * kChunk;
  const int64_t end = begin + kChunk < at.n ? begin + kChunk : at.n;
  const int64_t packed = end < at.packed ? end : at.packed;
  for (int64_t i = begin + kWidth * threadIdx.x; i < packed; i += kWidth * blockDim.x) {
    CastAt<kWidth>(at.x, at.y, i);
  }
  const int64_t rest = begin > packed ? begin : packed;
  for (int64_t i = rest + threadIdx.x; i < end; i += blockDim.x) CastAt<1>(at.x, at.y, i);
}

// Gives calls to the stream, as many at once as an argument holds.
template <typename From, typename To, int capacity>
class CastLauncher {
 public:
  explicit CastLauncher(const KernelContext& context) : context_(context) { table_.blocks.Clear(); }

  absl::Status Add(const From* x, To* y, int64_t n) {
    const int64_t blocks = (n + kChunk - 1) / kChunk;
    if (!table_.blocks.Holds(blocks)) RETURN_IF_ERROR(Finish());
    const Elements elements = ElementsOf(n, kPack<uint16_t>, x, y);
    table_.calls[table_.blocks.count] = {x, y, n, elements.wide * elements.width};
    table_.blocks.Add(blocks);
    return absl::OkStatus();
  }
  absl::Status Finish() {
    if (table_.blocks.count == 0) return absl::OkStatus();
    const Grid grid = {dim3(static_cast<unsigned>(table_.blocks.all())), dim3(kElementwiseThreads)};
    RETURN_IF_ERROR(Launch(context_, CastKernel<From, To, capacity>, grid, table_));
    table_.blocks.Clear();
    return absl::OkStatus();
  }

 private:
  const KernelContext& context_;
  CastTable<From, To, capacity> table_;
};

// A call that has elements.
struct SizedCall {
  CallPlace place;
  int64_t n;
};

template <typename From, typename To, int capacity>
PreparedKernel MakeCasts(std::vector<SizedCall> calls) {
  return MakeKernel(
      [calls = std::move(calls)](const KernelContext& context, const Operands& at) -> absl::Status {
        CastLauncher<From, To, capacity> launcher(context);
        for (const SizedCall& call : calls) {
          RETURN_IF_ERROR(launcher.Add(at.at<From>(call.place.operand(0)),
                                       at.at<To>(call.place.operand(1)), call.n));
        }
        return launcher.Finish();
      });
}

template <typename From, typename To>
PreparedKernel PrepareCasts(const KernelSpec& spec) {
  std::vector<SizedCall> calls;
  for (int c = 0; c < spec.calls; ++c) {
    const CallPlace place = PlaceOfCall(spec, c);
    const int64_t n = spec.inputs[place.first_input].NumElements();
    if (n > 0) calls.push_back({place, n});
  }
  return calls.size() <= kFewCalls ? MakeCasts<From, To, kFewCalls>(std::move(calls))
                                   : MakeCasts<From, To, kManyCalls>(std::move(calls));
}

// Whether all calls cast `from` to `to`.
bool AllCast(const KernelSpec& spec, DType from, DType to) {
  const auto of = [](DType dtype) {
    return [dtype](const Shard& shard) { return shard.dtype == dtype; };
  };
  return std::all_of(spec.inputs.begin(), spec.inputs.end(), of(from)) &&
         std::all_of(spec.outputs.begin(), spec.outputs.end(), of(to));
}

PreparedKernel PrepareAnyCast(const KernelSpec& spec) {
  const DType from = spec.inputs[0].dtype, to = spec.outputs[0].dtype;
  if (from == to) return PrepareCopy(spec);
  const int64_t n = spec.outputs[0].NumElements();
  return MakeKernel([=](const KernelContext& context, const Operands& at) {
    if (n == 0) return absl::OkStatus();
    return Launch(context, CastAnyKernel, GridOver(n), from, at.bytes(0), to, at.bytes(1), n);
  });
}

}  // namespace

PreparedKernel PrepareCast(const KernelSpec& spec) {
  if (AllCast(spec, DType::kF32, DType::kBF16)) return PrepareCasts<float, uint16_t>(spec);
  if (AllCast(spec, DType::kBF16, DType::kF32)) return PrepareCasts<uint16_t, float>(spec);
  return spec.calls == 1 ? PrepareAnyCast(spec) : PrepareEachCall(spec, PrepareAnyCast);
}

}  // namespace sluice::cuda
