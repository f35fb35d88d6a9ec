// The four steps of softmax cross entropy and the gradient of their chain; sigmoid cross entropy. A
// shard of a split vocabulary has the labels' columns of its own range; the others are some other
// shard's. All have the bits of the CPU.
#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/block.h"
#include "framework/kernels/cuda/held_classes.h"
#include "framework/kernels/smoothed_target.h"

namespace sluice::cuda {
namespace {

template <typename Row, typename T>
__global__ void __launch_bounds__(kRowThreads)
    MaxRows(const T* logits, float* max, int64_t rows, int64_t width) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows) return;
  logits += r * width;
  const float top =
      row.template Folded<MaxFold>(width, [&](int64_t i) { return Widen(logits[i]); });
  if (row.IsFirst()) max[r] = top;
}

template <typename Row, typename T>
__global__ void __launch_bounds__(kRowThreads)
    SumExpRows(const T* logits, const float* max, float* sum, int64_t rows, int64_t width) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows) return;
  logits += r * width;
  const float top = max[r];
  const float total = row.Sum(width, [&](int64_t i) { return Exp(Widen(logits[i]) - top); });
  if (row.IsFirst()) sum[r] = total;
}

template <typename T>
__global__ void __launch_bounds__(256)
    PickElements(const T* logits, const int32_t* labels, float* picked, HeldClasses classes,
                 int64_t rows, DeviceErrors errors) {
  const int64_t r = ThreadIndex();
  if (r >= rows) return;
  const int64_t column = classes.ColumnOf(labels[r], r, true, errors);
  picked[r] = classes.Holds(column) ? Widen(logits[r * classes.held + column]) : 0;
}

template <typename Row, typename T>
__global__ void __launch_bounds__(kRowThreads)
    PickSmoothed(const T* logits, const int32_t* labels, float* picked, HeldClasses classes,
                 SmoothedTarget target, int64_t rows, DeviceErrors errors) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows) return;
  logits += r * classes.held;
  const float sum = row.Sum(classes.held, [&](int64_t i) { return Widen(logits[i]); });
  if (!row.IsFirst()) return;
  const int64_t column = classes.ColumnOf(labels[r], r, true, errors);
  const float of_label = classes.Holds(column) ? Widen(logits[column]) : 0;
  picked[r] = target.label * of_label + target.share * sum;
}

__global__ void __launch_bounds__(256)
    Combine(const float* max, const float* sum, const float* picked, float* loss, int64_t n) {
  const int64_t i = ThreadIndex();
  if (i < n) loss[i] = CrossEntropyOf(max[i], sum[i], picked[i]);
}

template <typename T>
struct GradientOperands {
  const T* logits;
  const float *max, *sum;
  const int32_t* labels;
  const float* dpicked;
  T* dlogits;  // may take the place of the logits
};

// At the label nothing is rounded before all of it is added up: where a label is all but certain
// little is left of the two.
template <typename Row, typename T>
__global__ void __launch_bounds__(kRowThreads)
    GradientRows(GradientOperands<T> at, HeldClasses classes, SmoothedTarget target, int64_t rows,
                 DeviceErrors errors) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows) return;
  const T* const logits = at.logits + r * classes.held;
  T* const dlogits = at.dlogits + r * classes.held;
  const float top = at.max[r], dpicked = at.dpicked[r], factor = -dpicked / at.sum[r];
  const float alike = dpicked * target.share;
  const int64_t of_label = classes.ColumnOf(at.labels[r], r, row.IsFirst(), errors);
  row.ForEach(classes.held, [&](int64_t i) {
    float slope = factor * Exp(Widen(logits[i]) - top) + alike;
    if (i == of_label) slope = slope + target.label * dpicked;
    Narrow(slope, dlogits + i);
  });
}

__global__ void __launch_bounds__(256)
    SigmoidLoss(const float* logits, const float* labels, float* loss, int64_t n) {
  const int64_t i = ThreadIndex();
  if (i < n) loss[i] = SigmoidCrossEntropyOf(logits[i], labels[i]);
}

__global__ void __launch_bounds__(256)
    SigmoidGradient(const float* logits, const float* labels, const float* dloss, float* dlogits,
                    int64_t n) {
  const int64_t i = ThreadIndex();
  if (i < n) dlogits[i] = SigmoidCrossEntropyGradientOf(logits[i], labels[i], dloss[i]);
}

}  // namespace

PreparedKernel PrepareCrossEntropyMax(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireTypes(spec, {dtype, DType::kF32}));
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([rows, width](const KernelContext& context, const Operands& at) {
      return LaunchRows(context, rows, width, MaxRows<WarpRow, T>, MaxRows<BlockRow, T>,
                        at.at<T>(0), at.at(1), rows, width);
    });
  });
}

PreparedKernel PrepareCrossEntropySumExp(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireTypes(spec, {dtype, DType::kF32, DType::kF32}));
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([rows, width](const KernelContext& context, const Operands& at) {
      return LaunchRows(context, rows, width, SumExpRows<WarpRow, T>, SumExpRows<BlockRow, T>,
                        at.at<T>(0), at.at(1), at.at(2), rows, width);
    });
  });
}

PreparedKernel PrepareCrossEntropyPick(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireTypes(spec, {dtype, DType::kI32, DType::kF32}));
  const int64_t rows = NumRows(spec.inputs[0].local);
  const Classes classes(spec.inputs[0]);
  ASSIGN_OR_RETURN(const SmoothedTarget target, SmoothedTargetOf(spec, classes));
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([=](const KernelContext& context, const Operands& at) -> absl::Status {
      const HeldClasses held(classes, context.micro);
      const DeviceErrors errors = StreamOf(context).errors();
      if (target.share != 0) {
        return LaunchRows(context, rows, classes.held, PickSmoothed<WarpRow, T>,
                          PickSmoothed<BlockRow, T>, at.at<T>(0), at.at<int32_t>(1), at.at(2), held,
                          target, rows, errors);
      }
      if (rows == 0) return absl::OkStatus();
      return Launch(context, PickElements<T>, GridOf(rows), at.at<T>(0), at.at<int32_t>(1),
                    at.at(2), held, rows, errors);
    });
  });
}

PreparedKernel PrepareCrossEntropyCombine(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  const int64_t n = spec.outputs[0].NumElements();
  return MakeKernel([n](const KernelContext& context, const Operands& at) -> absl::Status {
    if (n == 0) return absl::OkStatus();
    return Launch(context, Combine, GridOf(n), at.at(0), at.at(1), at.at(2), at.at(3), n);
  });
}

PreparedKernel PrepareCrossEntropyGradient(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(
      RequireTypes(spec, {dtype, DType::kF32, DType::kF32, DType::kI32, DType::kF32, dtype}));
  const int64_t rows = NumRows(spec.inputs[0].local);
  const Classes classes(spec.inputs[0]);
  ASSIGN_OR_RETURN(const SmoothedTarget target, SmoothedTargetOf(spec, classes));
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([=](const KernelContext& context, const Operands& at) {
      const GradientOperands<T> operands = {at.at<T>(0),       at.at(1), at.at(2),
                                            at.at<int32_t>(3), at.at(4), at.at<T>(5)};
      return LaunchRows(context, rows, classes.held, GradientRows<WarpRow, T>,
                        GradientRows<BlockRow, T>, operands, HeldClasses(classes, context.micro),
                        target, rows, StreamOf(context).errors());
    });
  });
}

PreparedKernel PrepareSigmoidCrossEntropy(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  const int64_t n = spec.outputs[0].NumElements();
  return MakeKernel([n](const KernelContext& context, const Operands& at) -> absl::Status {
    if (n == 0) return absl::OkStatus();
    return Launch(context, SigmoidLoss, GridOf(n), at.at(0), at.at(1), at.at(2), n);
  });
}

PreparedKernel PrepareSigmoidCrossEntropyGradient(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  const int64_t n = spec.outputs[0].NumElements();
  return MakeKernel([n](const KernelContext& context, const Operands& at) -> absl::Status {
    if (n == 0) return absl::OkStatus();
    return Launch(context, SigmoidGradient, GridOf(n), at.at(0), at.at(1), at.at(2), at.at(3), n);
  });
}

}  // namespace sluice::cuda
