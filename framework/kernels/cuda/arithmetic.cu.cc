// Elementwise arithmetic. Operands broadcast by their logical shapes: a shard may hold one element
// of a dimension that is long in the whole.
#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/elementwise.h"
#include "framework/kernels/cuda/strided_index.h"

namespace sluice::cuda {
namespace {

SLUICE_INLINE uint32_t AddWords(uint32_t a, uint32_t b) { return a + b; }
SLUICE_INLINE uint32_t SubtractWords(uint32_t a, uint32_t b) { return a - b; }
SLUICE_INLINE uint32_t MultiplyWords(uint32_t a, uint32_t b) { return a * b; }

template <typename T>
using Formula = ComputeType<T> (*)(ComputeType<T>, ComputeType<T>);

// Of arrays that all have the output's elements in its order.
template <typename T, Formula<T> formula>
__global__ void __launch_bounds__(kElementwiseThreads)
    BinaryKernel(const T* a, const T* b, T* y, Elements elements) {
  ForElements<kPack<T>>(elements, [=]<int count>(int64_t i, Count<count>) {
    ComputeType<T> x[count], z[count];
    Load(a + i, x);
    Load(b + i, z);
    for (int e = 0; e < count; ++e) x[e] = formula(x[e], z[e]);
    Store(x, y + i);
  });
}

__global__ void __launch_bounds__(kElementwiseThreads)
    CastAddKernel(const float* a, const uint16_t* b, float* y, Elements elements) {
  ForElements<kPack<uint16_t>>(elements, [=]<int count>(int64_t i, Count<count>) {
    F x[count], z[count];
    Load(a + i, x);
    Load(b + i, z);
    for (int e = 0; e < count; ++e) x[e] = x[e] + z[e];
    Store(x, y + i);
  });
}

// The elements of an item: beside each other, or the same one for all.
template <typename T, typename V, int count>
SLUICE_INLINE void LoadOrRepeat(const T* p, bool repeats, V (&x)[count]) {
  if (!repeats) return Load(p, x);
  const V value = Widen(*p);
  for (int e = 0; e < count; ++e) x[e] = value;
}

// An operand is walked by strides, and may be one element for a whole item.
struct Repeats {
  bool a, b;
};
template <typename T, Formula<T> formula, int width>
__global__ void __launch_bounds__(kElementwiseThreads)
    BroadcastKernel(const T* a, const T* b, T* y, StridedIndex<2> index, Repeats repeats) {
  for (int64_t item = ThreadIndex(); item < index.items; item += NumThreads()) {
    int64_t at[2];
    OffsetsOf(index, item, at);
    ComputeType<T> x[width], z[width];
    LoadOrRepeat(a + at[0], repeats.a, x);
    LoadOrRepeat(b + at[1], repeats.b, z);
    for (int e = 0; e < width; ++e) x[e] = formula(x[e], z[e]);
    Store(x, y + item * width);
  }
}

template <typename T, Formula<T> formula>
PreparedKernel PrepareBinary(const KernelSpec& spec) {
  const Shard& y = spec.outputs[0];
  const StridedExtent extent(
      y.local, {BroadcastStrides(spec.inputs[0], y), BroadcastStrides(spec.inputs[1], y)});
  const int64_t n = y.NumElements();
  if (extent.rank() == 1 && extent.row_stride(0) == 1 && extent.row_stride(1) == 1) {
    return MakeKernel([n](const KernelContext& context, const Operands& at) {
      return LaunchOver<T>(context, n, BinaryKernel<T, formula>, at.at<T>(0), at.at<T>(1),
                           at.at<T>(2));
    });
  }
  const bool in_packs = WalksInItems(extent, kPack<T>, /*repeats=*/true);
  const Repeats repeats = {extent.row_stride(0) == 0, extent.row_stride(1) == 0};
  const StridedIndex<2> by_pack = IndexOf<2>(extent, in_packs ? kPack<T> : 1);
  const StridedIndex<2> by_element = IndexOf<2>(extent);
  return MakeKernel([=](const KernelContext& context, const Operands& at) {
    if (n == 0) return absl::OkStatus();
    const T *a = at.at<T>(0), *b = at.at<T>(1);
    T* const to = at.at<T>(2);
    if (in_packs && PackAligned(a, b, to)) {
      return Launch(context, BroadcastKernel<T, formula, kPack<T>>, GridOver(by_pack.items), a, b,
                    to, by_pack, repeats);
    }
    return Launch(context, BroadcastKernel<T, formula, 1>, GridOver(by_element.items), a, b, to,
                  by_element, repeats);
  });
}

template <Formula<float> formula>
PreparedKernel PrepareBinaryFloat(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireAll(spec, dtype));
  return OfFloat(spec, dtype, [&]<typename T>(T) { return PrepareBinary<T, formula>(spec); });
}

bool AllI32(const KernelSpec& spec) { return RequireAll(spec, DType::kI32).ok(); }

template <typename T>
__global__ void __launch_bounds__(kElementwiseThreads)
    ScaleKernel(const T* x, T* y, float factor, Elements elements) {
  ForElements<kPack<T>>(elements, [=]<int count>(int64_t i, Count<count>) {
    F a[count];
    Load(x + i, a);
    for (F& e : a) e = e * factor;
    Store(a, y + i);
  });
}

__global__ void __launch_bounds__(kElementwiseThreads)
    SqrtKernel(const float* x, float* y, Elements elements) {
  ForElements<kPack<float>>(elements, [=]<int count>(int64_t i, Count<count>) {
    F a[count];
    Load(x + i, a);
    for (F& e : a) e = Sqrt(e);
    Store(a, y + i);
  });
}

// A kernel's arguments may take 32 KB. A few terms are what there mostly is.
constexpr int kFewTerms = 8, kMostTerms = 2048;
template <typename T, int most>
struct Terms {
  int count;
  const T* at[most];
};

// Of so many elements. Terms of bf16 are added up in f32, to be rounded once.
template <int count, typename T, int most>
SLUICE_INLINE void AddTermsAt(int64_t i, const Terms<T, most>& terms, T* y) {
  F total[count];
  Load(terms.at[0] + i, total);
  for (int t = 1; t < most; ++t) {  // unrolled where they are few, as they are registers then
    if (t >= terms.count) break;
    F term[count];
    Load(terms.at[t] + i, term);
    for (int e = 0; e < count; ++e) total[e] = total[e] + term[e];
  }
  Store(total, y + i);
}

// Without ForElements: what a lambda refers to would be copied to local memory first.
template <typename T, int most>
__global__ void __launch_bounds__(kElementwiseThreads)
    AddTermsKernel(Terms<T, most> terms, T* y, Elements elements) {
  constexpr int kWidth = kPack<T>;
  const int64_t first = ThreadIndex(), threads = NumThreads();
  for (int64_t i = first; i < elements.wide; i += threads) AddTermsAt<kWidth>(i * kWidth, terms, y);
  for (int64_t i = elements.wide * kWidth + first; i < elements.n; i += threads) {
    AddTermsAt<1>(i, terms, y);
  }
}

template <typename T, int most>
PreparedKernel PrepareTerms(const KernelSpec& spec) {
  const int64_t n = spec.outputs[0].NumElements();
  const int count = static_cast<int>(spec.inputs.size());
  return MakeKernel([n, count](const KernelContext& context, const Operands& at) {
    if (n == 0) return absl::OkStatus();
    T* const y = at.at<T>(count);
    Terms<T, most> terms = {count, {}};
    bool aligned = PackAligned(y);
    for (int t = 0; t < count; ++t) {
      terms.at[t] = at.at<T>(t);
      aligned = aligned && PackAligned(terms.at[t]);
    }
    const Elements elements = {n, kPack<T>, aligned ? n / kPack<T> : 0};
    return Launch(context, AddTermsKernel<T, most>, elements.grid(), terms, y, elements);
  });
}

}  // namespace

PreparedKernel PrepareAdd(const KernelSpec& spec) {
  if (AllI32(spec)) return PrepareBinary<uint32_t, AddWords>(spec);
  return PrepareBinaryFloat<AddOf>(spec);
}

PreparedKernel PrepareCastAdd(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireTypes(spec, {DType::kF32, DType::kBF16, DType::kF32}));
  const int64_t n = spec.outputs[0].NumElements();
  return MakeKernel([n](const KernelContext& context, const Operands& at) {
    return LaunchOver<uint16_t>(context, n, CastAddKernel, at.at(0), at.at<uint16_t>(1), at.at(2));
  });
}

PreparedKernel PrepareSubtract(const KernelSpec& spec) {
  if (AllI32(spec)) return PrepareBinary<uint32_t, SubtractWords>(spec);
  return PrepareBinaryFloat<SubtractOf>(spec);
}

PreparedKernel PrepareMultiply(const KernelSpec& spec) {
  if (AllI32(spec)) return PrepareBinary<uint32_t, MultiplyWords>(spec);
  return PrepareBinaryFloat<MultiplyOf>(spec);
}

PreparedKernel PrepareDivide(const KernelSpec& spec) { return PrepareBinaryFloat<DivideOf>(spec); }

PreparedKernel PrepareScale(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireAll(spec, dtype));
  ASSIGN_OR_RETURN(const ScaleAttributes attributes,
                   ParseAttributes<ScaleAttributes>(spec.attributes));
  const float factor = static_cast<float>(attributes.factor);
  const int64_t n = spec.outputs[0].NumElements();
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([n, factor](const KernelContext& context, const Operands& at) {
      if (n == 0) return absl::OkStatus();
      const Elements elements = ElementsOf(n, kPack<T>, at.at<T>(0), at.at<T>(1));
      return Launch(context, ScaleKernel<T>, elements.grid(), at.at<T>(0), at.at<T>(1), factor,
                    elements);
    });
  });
}

PreparedKernel PrepareAddN(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireAll(spec, dtype));
  const size_t count = spec.inputs.size();
  if (count > kMostTerms) return NoKernel(spec);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return count <= kFewTerms ? PrepareTerms<T, kFewTerms>(spec)
                              : PrepareTerms<T, kMostTerms>(spec);
  });
}

PreparedKernel PrepareSqrt(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  const int64_t n = spec.outputs[0].NumElements();
  return MakeKernel([n](const KernelContext& context, const Operands& at) {
    return LaunchOver<float>(context, n, SqrtKernel, at.at(0), at.at(1));
  });
}

}  // namespace sluice::cuda
