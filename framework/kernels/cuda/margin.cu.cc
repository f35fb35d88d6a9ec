// Margins at the labels' classes of scaled cosines. A shard of split classes has the labels of its
// own range; the others are some other shard's.
#include <cmath>

#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/block.h"
#include "framework/kernels/cuda/held_classes.h"

namespace sluice::cuda {
namespace {

#include "framework/kernels/margin.inc"

// Results may take the place of operands: a thread reads an element before it writes it.
template <typename Row, typename T>
__global__ void __launch_bounds__(kRowThreads)
    MarginRows(const T* cosines, const int32_t* labels, T* logits, HeldClasses classes,
               Margin margin, int64_t rows, DeviceErrors errors) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows) return;
  const int64_t first = r * classes.held;
  const float scale = static_cast<float>(margin.scale);
  const int64_t of_label = classes.ColumnOf(labels[r], r, row.IsFirst(), errors);
  row.ForEach(classes.held, [&](int64_t i) {
    const float cosine = Widen(cosines[first + i]);
    Narrow(i == of_label ? static_cast<float>(margin.Logit(cosine)) : cosine * scale,
           logits + first + i);
  });
}

template <typename Row, typename T>
__global__ void __launch_bounds__(kRowThreads)
    MarginGradientRows(const T* logits, const int32_t* labels, const T* dlogits, T* dcosines,
                       HeldClasses classes, Margin margin, int64_t rows, DeviceErrors errors) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows) return;
  const int64_t first = r * classes.held;
  const float scale = static_cast<float>(margin.scale);
  const int64_t of_label = classes.ColumnOf(labels[r], r, row.IsFirst(), errors);
  row.ForEach(classes.held, [&](int64_t i) {
    const float slope = Widen(dlogits[first + i]);
    const float scaled =
        i == of_label
            ? static_cast<float>(margin.scale * margin.Factor(Widen(logits[first + i])) * slope)
            : slope * scale;
    Narrow(scaled, dcosines + first + i);
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
      return LaunchRows(context, rows, classes.held, MarginRows<WarpRow, T>,
                        MarginRows<BlockRow, T>, at.at<T>(0), at.at<int32_t>(1), at.at<T>(2),
                        HeldClasses(classes, context.micro), margin, rows,
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
      return LaunchRows(context, rows, classes.held, MarginGradientRows<WarpRow, T>,
                        MarginGradientRows<BlockRow, T>, at.at<T>(0), at.at<int32_t>(1),
                        at.at<T>(2), at.at<T>(3), HeldClasses(classes, context.micro), margin, rows,
                        StreamOf(context).errors());
    });
  });
}

}  // namespace sluice::cuda
