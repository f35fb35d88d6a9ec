// Activations, and dropout.
#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/elementwise.h"
#include "framework/kernels/cuda/philox.h"
#include "framework/kernels/cuda/strided_index.h"

namespace sluice::cuda {
namespace {

template <typename T, F (*formula)(F)>
__global__ void __launch_bounds__(kElementwiseThreads)
    MapKernel(const T* x, T* y, Elements elements) {
  ForElements<kPack<T>>(elements, [=]<int count>(int64_t i, Count<count>) {
    F a[count];
    Load(x + i, a);
    for (F& e : a) e = formula(e);
    Store(a, y + i);
  });
}

template <typename T, F (*formula)(F, F)>
__global__ void __launch_bounds__(kElementwiseThreads)
    MapTwoKernel(const T* a, const T* b, T* y, Elements elements) {
  ForElements<kPack<T>>(elements, [=]<int count>(int64_t i, Count<count>) {
    F first[count], second[count];
    Load(a + i, first);
    Load(b + i, second);
    for (int e = 0; e < count; ++e) first[e] = formula(first[e], second[e]);
    Store(first, y + i);
  });
}

// A kernel that maps each element of input 0.
template <F (*formula)(F)>
PreparedKernel PrepareUnary(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireAll(spec, dtype));
  const int64_t n = spec.outputs[0].NumElements();
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([n](const KernelContext& context, const Operands& at) {
      return LaunchOver<T>(context, n, MapKernel<T, formula>, at.at<T>(0), at.at<T>(1));
    });
  });
}

template <F (*formula)(F, F)>
PreparedKernel PrepareTwo(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireAll(spec, dtype));
  const int64_t n = spec.outputs[0].NumElements();
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([n](const KernelContext& context, const Operands& at) {
      return LaunchOver<T>(context, n, MapTwoKernel<T, formula>, at.at<T>(0), at.at<T>(1),
                           at.at<T>(2));
    });
  });
}

// Items of `width` elements, whose logical indices are consecutive: they are whole blocks of
// Philox, or one element each. `index` gives the logical index of an item's first, less `first`.
template <typename T, int width>
__global__ void __launch_bounds__(kElementwiseThreads)
    DropoutKernel(const T* x, T* y, DropoutRule rule, int64_t first, StridedIndex<1> index) {
  for (int64_t item = ThreadIndex(); item < index.items; item += NumThreads()) {
    const int64_t at = first + OffsetOf(index, item, 0);
    F a[width];
    Load(x + item * width, a);
    DropElements(rule, at, a);
    Store(a, y + item * width);
  }
}

}  // namespace

PreparedKernel PrepareGelu(const KernelSpec& spec) { return PrepareUnary<GeluOf>(spec); }
PreparedKernel PrepareGeluGradient(const KernelSpec& spec) {
  return PrepareTwo<GeluGradientOf>(spec);
}

PreparedKernel PrepareGeluErf(const KernelSpec& spec) { return PrepareUnary<GeluErfOf>(spec); }
PreparedKernel PrepareGeluErfGradient(const KernelSpec& spec) {
  return PrepareTwo<GeluErfGradientOf>(spec);
}

PreparedKernel PrepareTanh(const KernelSpec& spec) { return PrepareUnary<TanhOf>(spec); }
PreparedKernel PrepareTanhGradient(const KernelSpec& spec) {
  return PrepareTwo<TanhGradientOf>(spec);
}

PreparedKernel PrepareSilu(const KernelSpec& spec) { return PrepareUnary<SiluOf>(spec); }
PreparedKernel PrepareSiluGradient(const KernelSpec& spec) {
  return PrepareTwo<SiluGradientOf>(spec);
}

PreparedKernel PrepareSigmoid(const KernelSpec& spec) { return PrepareUnary<SigmoidOf>(spec); }
PreparedKernel PrepareSigmoidGradient(const KernelSpec& spec) {
  return PrepareTwo<SigmoidGradientOf>(spec);
}

PreparedKernel PrepareRelu(const KernelSpec& spec) { return PrepareUnary<ReluOf>(spec); }
PreparedKernel PrepareReluGradient(const KernelSpec& spec) {
  return PrepareTwo<ReluGradientOf>(spec);
}

// Draws by logical index: a row of the shard is a run of consecutive logical indices, but where the
// last dimension is cut to one element.
PreparedKernel PrepareDropout(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireAll(spec, dtype));
  ASSIGN_OR_RETURN(const DropoutAttributes attributes,
                   ParseAttributes<DropoutAttributes>(spec.attributes));
  const Shard& x = spec.inputs[0];
  const Shape logical = x.logical.Strides();
  int64_t first = 0, per_micro = 0;
  for (int d = 0; d < x.local.rank(); ++d) {
    first += x.offset[d] * logical[d];
    per_micro += x.stride_per_micro[d] * logical[d];
  }
  const uint32_t threshold = DropoutThreshold(attributes.rate);
  const float scale = static_cast<float>(1 / (1 - attributes.rate));
  const int64_t key = attributes.key;
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    const StridedExtent extent(x.local, {logical});
    const bool in_packs = WalksInItems(extent, kPack<T>, /*repeats=*/false);
    const StridedIndex<1> by_pack = IndexOf<1>(extent, in_packs ? kPack<T> : 1);
    const StridedIndex<1> by_element = IndexOf<1>(extent);
    return MakeKernel([=](const KernelContext& context, const Operands& at) {
      if (by_element.items == 0) return absl::OkStatus();
      const DropoutRule rule = {DrawOf(context, key), threshold, scale};
      const int64_t start = first + context.micro * per_micro;
      const T* const from = at.at<T>(0);
      T* const to = at.at<T>(1);
      if (in_packs && start % 4 == 0 && PackAligned(from, to)) {
        return Launch(context, DropoutKernel<T, kPack<T>>, GridOver(by_pack.items), from, to, rule,
                      start, by_pack);
      }
      return Launch(context, DropoutKernel<T, 1>, GridOver(by_element.items), from, to, rule, start,
                    by_element);
    });
  });
}

}  // namespace sluice::cuda
