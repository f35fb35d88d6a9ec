// Margins at the labels' classes of scaled cosines. A shard of split classes has the labels of its
// own range; the others are some other shard's.
#include <cmath>

#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/block.h"
#include "framework/kernels/cuda/held_classes.h"

namespace sluice::cuda {
namespace {

#include "framework/kernels/margin.inc"

// Results may take the place of operands: a thread reads its elements before it writes them. The
// label's, in f64, is computed apart and once, not for each element of a pack.
template <typename Row, typename T>
__global__ void __launch_bounds__(kRowThreads)
    MarginRows(Rows rows, const T* cosines, const int32_t* labels, T* logits, HeldClasses classes,
               Margin margin, DeviceErrors errors) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows.count) return;
  cosines += r * rows.length, logits += r * rows.length;
  const float scale = static_cast<float>(margin.scale);
  const int64_t of_label = classes.ColumnOf(labels[r], r, row.IsFirst(), errors);
  row.template ForEach<kPack<T>>(rows, [&]<int count>(int64_t i, Count<count>) {
    float a[count], at_label = 0;
    Load(cosines + i, a);
    if (i <= of_label && of_label < i + count) {
      at_label = static_cast<float>(margin.Logit(Widen(cosines[of_label])));
    }
    for (int e = 0; e < count; ++e) a[e] = i + e == of_label ? at_label : a[e] * scale;
    Store(a, logits + i);
  });
}

template <typename Row, typename T>
__global__ void __launch_bounds__(kRowThreads)
    MarginGradientRows(Rows rows, const T* logits, const int32_t* labels, const T* dlogits,
                       T* dcosines, HeldClasses classes, Margin margin, DeviceErrors errors) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows.count) return;
  const int64_t first = r * rows.length;
  logits += first, dlogits += first, dcosines += first;
  const float scale = static_cast<float>(margin.scale);
  const int64_t of_label = classes.ColumnOf(labels[r], r, row.IsFirst(), errors);
  row.template ForEach<kPack<T>>(rows, [&]<int count>(int64_t i, Count<count>) {
    float slope[count], at_label = 0;
    Load(dlogits + i, slope);
    if (i <= of_label && of_label < i + count) {
      const float logit = Widen(logits[of_label]), dlogit = Widen(dlogits[of_label]);
      at_label = static_cast<float>(margin.scale * margin.Factor(logit) * dlogit);
    }
    for (int e = 0; e < count; ++e) slope[e] = i + e == of_label ? at_label : slope[e] * scale;
    Store(slope, dcosines + i);
  });
}

}  // namespace

// cosine, labels; logits.
PreparedKernel PrepareMarginLogits(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireTypes(spec, {dtype, DType::kI32, dtype}));
  ASSIGN_OR_RETURN(const Margin margin, MarginOf(spec));
  const int64_t rows = NumRows(spec.inputs[0].local);
  const Classes classes(spec.inputs[0]);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([rows, classes, margin](const KernelContext& context, const Operands& at) {
      const T* const cosines = at.at<T>(0);
      T* const logits = at.at<T>(2);
      return LaunchRows(context, RowsOf<T>(rows, classes.held, cosines, logits),
                        MarginRows<WarpRow, T>, MarginRows<BlockRow, T>, cosines, at.at<int32_t>(1),
                        logits, HeldClasses(classes, context.micro), margin,
                        StreamOf(context).errors());
    });
  });
}

// logits, labels, dlogits; dcosine.
PreparedKernel PrepareMarginLogitsGradient(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireTypes(spec, {dtype, DType::kI32, dtype, dtype}));
  ASSIGN_OR_RETURN(const Margin margin, MarginOf(spec));
  const int64_t rows = NumRows(spec.inputs[0].local);
  const Classes classes(spec.inputs[0]);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([rows, classes, margin](const KernelContext& context, const Operands& at) {
      const T* const dlogits = at.at<T>(2);
      T* const dcosines = at.at<T>(3);
      return LaunchRows(context, RowsOf<T>(rows, classes.held, dlogits, dcosines),
                        MarginGradientRows<WarpRow, T>, MarginGradientRows<BlockRow, T>,
                        at.at<T>(0), at.at<int32_t>(1), dlogits, dcosines,
                        HeldClasses(classes, context.micro), margin, StreamOf(context).errors());
    });
  });
}

}  // namespace sluice::cuda
