// Boxing on one device: the output's regions are folds of slices of the inputs. And the sum over
// micro-batches. Folds are in the order of the CPU, and give its bits.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/elementwise.h"
#include "framework/kernels/cuda/moves.h"
#include "framework/tensor/array.h"

namespace sluice::cuda {
namespace {

constexpr int kMaxDepth = 24;               // of a fold's stack
constexpr int kFoldThreads = 128;           // of which each has such a stack in shared memory
constexpr int64_t kSharedBytes = 48 << 10;  // that a block may have without asking
constexpr int kMaxSources = StridedExtent::kMaxOperands - 1;

// a op b, of elements of T; in f64 but for float types, as Reduce (tensor/shard.h).
template <typename T>
struct FoldsIn {
  using type = double;
};
template <>
struct FoldsIn<float> {
  using type = float;
};
template <>
struct FoldsIn<uint16_t> {
  using type = float;
};
template <typename T>
using FoldType = typename FoldsIn<T>::type;

template <typename T>
SLUICE_INLINE FoldType<T> Combined(Reduction reduction, FoldType<T> a, FoldType<T> b) {
  if constexpr (sizeof(FoldType<T>) == sizeof(float)) {
    if (reduction == Reduction::kMax) return Max(a, b);
    if (reduction == Reduction::kMin) return Min(a, b);
    return Rounded<T>(a + b);
  } else {
    if (reduction == Reduction::kMax) return a > b || a != a ? a : b;
    if (reduction == Reduction::kMin) return a < b || a != a ? a : b;
    return static_cast<double>(static_cast<T>(a + b));
  }
}

// As Load and Store, with elements of integers as f64.
template <typename T, int count>
SLUICE_INLINE void LoadTerms(const T* p, FoldType<T> (&x)[count]) {
  if constexpr (count == 1) {
    x[0] = static_cast<FoldType<T>>(Widen(*p));
  } else {
    Load(p, x);
  }
}
template <typename T, int count>
SLUICE_INLINE void StoreTerms(const FoldType<T> (&x)[count], T* p) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<FoldType<T>, float>) {
    static_assert(count == 1);
    *p = static_cast<T>(x[0]);
  } else {
    Store(x, p);
  }
}
// Integers are few: they go one by one.
template <typename T>
constexpr int kFoldPack =
    std::is_integral_v<T> && !std::is_same_v<FoldType<T>, float> ? 1 : kPack<T>;

// A fold in postfix form: the number of a source, or -1 for the combination of the last two.
// Sources are as the index has them, the output behind them.
template <typename T, int most>
struct FoldExpression {
  Reduction reduction;
  int words;
  int8_t word[2 * most];
  const T* source[most];
  StridedIndex<most + 1> index;
};

// The stack of a thread is its own column of shared memory, but for the top.
template <typename T, int most, int width>
__global__ void __launch_bounds__(kFoldThreads) FoldKernel(FoldExpression<T, most> fold, T* to) {
  using V = FoldType<T>;
  V* const stack = SharedMemory<V>() + threadIdx.x;
  const int step = static_cast<int>(blockDim.x);
  for (int64_t item = ThreadIndex(); item < fold.index.items; item += NumThreads()) {
    V top[width] = {};
    int below = -1;  // entries of the stack under the top
    for (int w = 0; w < fold.words; ++w) {
      const int source = fold.word[w];
      if (source >= 0) {
        for (int e = 0; below >= 0 && e < width; ++e) stack[(below * width + e) * step] = top[e];
        ++below;
        LoadTerms(fold.source[source] + OffsetOf(fold.index, item, source), top);
      } else {
        --below;
        for (int e = 0; e < width; ++e) {
          top[e] = Combined<T>(fold.reduction, stack[(below * width + e) * step], top[e]);
        }
      }
    }
    StoreTerms(top, to + OffsetOf(fold.index, item, most));
  }
}

// How deep a fold's stack gets; -1 if it is not one whole expression.
int DepthOf(const std::vector<int>& fold, int sources) {
  int depth = 0, deepest = 0;
  for (int word : fold) {
    if (word >= sources || word < -1) return -1;
    depth += word < 0 ? -1 : 1;
    if (depth < 1) return -1;
    deepest = std::max(deepest, depth);
  }
  return depth == 1 ? deepest : -1;
}

// A region ready to run.
class Region {
 public:
  virtual ~Region() = default;
  virtual absl::Status Run(const KernelContext& context, const Operands& at) const = 0;
};

class CopiedRegion final : public Region {
 public:
  CopiedRegion(const KernelSpec& spec, const FoldRegion& region)
      : source_(region.sources[region.fold[0]]),
        output_(static_cast<int>(spec.inputs.size())),
        copy_(StridedExtent(region.extent, {region.source_strides[region.fold[0]], region.strides}),
              SizeOf(spec.outputs[0].dtype), region.source_offsets[region.fold[0]], region.offset) {
  }
  absl::Status Run(const KernelContext& context, const Operands& at) const override {
    return copy_.Run(context, at.bytes(source_), at.bytes(output_));
  }

 private:
  const int source_, output_;
  const StridedCopy copy_;
};

template <typename T, int most>
class FoldedRegion final : public Region {
 public:
  FoldedRegion(const KernelSpec& spec, const FoldRegion& region, int depth)
      : inputs_(region.sources),
        source_offsets_(region.source_offsets),
        output_(static_cast<int>(spec.inputs.size())),
        offset_(region.offset),
        saved_(depth - 1) {
    // The output is the last array of the index, whatever the number of sources.
    std::vector<Shape> strides = region.source_strides;
    strides.resize(most, region.strides);
    strides.push_back(region.strides);
    const StridedExtent extent(region.extent, strides);
    single_.reduction = spec.reduction;
    single_.words = static_cast<int>(region.fold.size());
    std::copy(region.fold.begin(), region.fold.end(), single_.word);
    std::fill_n(single_.source, most, nullptr);
    single_.index = IndexOf<most + 1>(extent);
    packed_ = single_;
    in_packs_ = kFoldPack<T> > 1 && SharedBytes(kFoldPack<T>, kFoldThreads) <= kSharedBytes &&
                WalksInItems(extent, kFoldPack<T>, /*repeats=*/false);
    if (in_packs_) packed_.index = IndexOf<most + 1>(extent, kFoldPack<T>);
  }

  absl::Status Run(const KernelContext& context, const Operands& at) const override {
    if (single_.index.items == 0) return absl::OkStatus();
    T* const to = at.at<T>(output_) + offset_;
    bool aligned = in_packs_ && PackAligned(to);
    for (size_t i = 0; i < inputs_.size(); ++i) aligned = aligned && PackAligned(Source(at, i));
    if constexpr (kFoldPack < T >> 1) {
      if (aligned) return Fold<kFoldPack<T>>(context, at, packed_, to);
    }
    return Fold<1>(context, at, single_, to);
  }

 private:
  const T* Source(const Operands& at, size_t i) const {
    return at.at<T>(inputs_[i]) + source_offsets_[i];
  }
  int64_t SharedBytes(int64_t width, int64_t threads) const {
    return saved_ * width * threads * static_cast<int64_t>(sizeof(FoldType<T>));
  }
  template <int width>
  absl::Status Fold(const KernelContext& context, const Operands& at, FoldExpression<T, most> fold,
                    T* to) const {
    for (size_t i = 0; i < inputs_.size(); ++i) fold.source[i] = Source(at, i);
    Grid grid = GridOver(fold.index.items, kFoldThreads);
    grid.shared_bytes = static_cast<size_t>(SharedBytes(width, grid.threads.x));
    return Launch(context, FoldKernel<T, most, width>, grid, fold, to);
  }

  const std::vector<int> inputs_;
  const std::vector<int64_t> source_offsets_;
  const int output_;
  const int64_t offset_, saved_;
  bool in_packs_ = false;
  FoldExpression<T, most> single_, packed_;
};

template <typename T>
std::shared_ptr<const Region> FoldedRegionOf(const KernelSpec& spec, const FoldRegion& region,
                                             int depth) {
  constexpr int kFewSources = 8;
  if (region.sources.size() <= kFewSources) {
    return std::make_shared<FoldedRegion<T, kFewSources>>(spec, region, depth);
  }
  return std::make_shared<FoldedRegion<T, kMaxSources>>(spec, region, depth);
}

absl::StatusOr<std::shared_ptr<const Region>> RegionOf(const KernelSpec& spec,
                                                       const FoldRegion& region) {
  const int sources = static_cast<int>(region.sources.size());
  const int depth = DepthOf(region.fold, sources);
  if (depth < 0 || depth > kMaxDepth || sources > kMaxSources) {
    return absl::InternalError(absl::StrCat("box: expected a fold of at most ", kMaxDepth,
                                            " pending values, got ", depth, " over ", sources,
                                            " sources"));
  }
  for (const int source : region.sources) {
    if (source < 0 || source >= static_cast<int>(spec.inputs.size()) ||
        spec.inputs[source].dtype != spec.outputs[0].dtype) {
      return NoKernel(spec);
    }
  }
  if (region.fold.size() == 1) return std::make_shared<CopiedRegion>(spec, region);
  switch (spec.outputs[0].dtype) {
    case DType::kF32:
      return FoldedRegionOf<float>(spec, region, depth);
    case DType::kF64:
      return FoldedRegionOf<double>(spec, region, depth);
    case DType::kBF16:
      return FoldedRegionOf<uint16_t>(spec, region, depth);
    case DType::kI32:
      return FoldedRegionOf<int32_t>(spec, region, depth);
    case DType::kU8:
      return FoldedRegionOf<uint8_t>(spec, region, depth);
  }
  return NoKernel(spec);
}

// The bits of what changes nothing, of the types that have no infinity the limit.
uint64_t IdentityBits(DType dtype, Reduction reduction) {
  double identity = IdentityOf(reduction);
  if (!IsFloat(dtype) && std::isinf(identity)) {
    const bool bytes = dtype == DType::kU8;
    identity = identity < 0 ? (bytes ? 0.0 : -2147483648.0) : (bytes ? 255.0 : 2147483647.0);
  }
  uint64_t bits = 0;
  StoreElement(dtype, reinterpret_cast<std::byte*>(&bits), 0, identity);
  return bits;
}

// y = y op x.
template <typename T>
__global__ void __launch_bounds__(kElementwiseThreads)
    AccumulateKernel(const T* x, T* y, Reduction reduction, Elements elements) {
  ForElements<kFoldPack<T>>(elements, [=]<int count>(int64_t i, Count<count>) {
    FoldType<T> a[count], b[count];
    LoadTerms(y + i, a);
    LoadTerms(x + i, b);
    for (int e = 0; e < count; ++e) a[e] = Combined<T>(reduction, a[e], b[e]);
    StoreTerms(a, y + i);
  });
}

template <typename T>
PreparedKernel PrepareAccumulateOf(const KernelSpec& spec) {
  const int64_t n = spec.outputs[0].NumElements();
  const Reduction reduction = spec.reduction;
  return MakeKernel([=](const KernelContext& context, const Operands& at) {
    if (n == 0) return absl::OkStatus();
    if (context.micro == 0) {
      return CopyBytes(context, at.bytes(0), at.bytes(1), n * static_cast<int64_t>(sizeof(T)));
    }
    const Elements elements = ElementsOf(n, kFoldPack<T>, at.at<T>(0), at.at<T>(1));
    return Launch(context, AccumulateKernel<T>, elements.grid(), at.at<T>(0), at.at<T>(1),
                  reduction, elements);
  });
}

}  // namespace

PreparedKernel PrepareFold(const KernelSpec& spec) {
  const Shard& y = spec.outputs[0];
  struct OfMicro {
    int micro;  // 0: of every one, else it and one
    std::shared_ptr<const Region> region;
  };
  std::vector<OfMicro> regions;
  for (const FoldRegion& region : spec.regions) {
    ASSIGN_OR_RETURN(std::shared_ptr<const Region> made, RegionOf(spec, region));
    regions.push_back({region.micro, std::move(made)});
  }
  const uint64_t identity = IdentityBits(y.dtype, spec.reduction);
  const bool fill = spec.fill_identity;
  const int64_t n = y.NumElements(), size = SizeOf(y.dtype);
  const int output = static_cast<int>(spec.inputs.size());
  return MakeKernel([=](const KernelContext& context, const Operands& at) -> absl::Status {
    if (fill) RETURN_IF_ERROR(FillElements(context, identity, size, at.bytes(output), n));
    for (const OfMicro& each : regions) {
      if (each.micro != 0 && each.micro != context.micro + 1) continue;
      RETURN_IF_ERROR(each.region->Run(context, at));
    }
    return absl::OkStatus();
  });
}

// The first firing of a step sets the output, later ones combine with it.
PreparedKernel PrepareAccumulate(const KernelSpec& spec) {
  if (spec.inputs[0].dtype != spec.outputs[0].dtype) return NoKernel(spec);
  switch (spec.outputs[0].dtype) {
    case DType::kF32:
      return PrepareAccumulateOf<float>(spec);
    case DType::kF64:
      return PrepareAccumulateOf<double>(spec);
    case DType::kBF16:
      return PrepareAccumulateOf<uint16_t>(spec);
    case DType::kI32:
      return PrepareAccumulateOf<int32_t>(spec);
    case DType::kU8:
      return PrepareAccumulateOf<uint8_t>(spec);
  }
  return NoKernel(spec);
}

}  // namespace sluice::cuda
