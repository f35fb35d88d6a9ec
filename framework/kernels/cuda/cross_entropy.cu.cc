// The four steps of softmax cross entropy, the first two also as one, and the gradient of their
// chain; sigmoid cross entropy. A shard of a split vocabulary has the labels' columns of its own
// range; the others are some other shard's. All have the bits of the CPU.
#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/block.h"
#include "framework/kernels/cuda/held_classes.h"
#include "framework/kernels/smoothed_target.h"

namespace sluice::cuda {
namespace {

// Of the row's logits, in every thread.
template <typename Row, typename T>
SLUICE_INLINE float MaxOf(const Row& row, const Rows& rows, const T* logits) {
  return row.template Folded<MaxFold, kPack<T>>(
      rows, [&](int64_t i, auto& term) { Load(logits + i, term); });
}
template <typename Row, typename T>
SLUICE_INLINE float SumExpOf(const Row& row, const Rows& rows, const T* logits, float top) {
  return row.template Sum<kPack<T>>(rows, [&](int64_t i, auto& term) {
    Load(logits + i, term);
    for (float& e : term) e = Exp(e - top);
  });
}

template <typename Row, typename T>
__global__ void __launch_bounds__(kRowThreads) MaxRows(Rows rows, const T* logits, float* max) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows.count) return;
  const float top = MaxOf(row, rows, logits + r * rows.length);
  if (row.IsFirst()) max[r] = top;
}

template <typename Row, typename T>
__global__ void __launch_bounds__(kRowThreads)
    SumExpRows(Rows rows, const T* logits, const float* max, float* sum) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows.count) return;
  const float total = SumExpOf(row, rows, logits + r * rows.length, max[r]);
  if (row.IsFirst()) sum[r] = total;
}

// Both of whole rows. While some blocks wait for memory, in the first pass, others compute, in the
// second; and of the second pass the cache has what the first has left there.
template <typename Row, typename T>
__global__ void __launch_bounds__(kRowThreads)
    MaxAndSumExpRows(Rows rows, const T* logits, float* max, float* sum) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows.count) return;
  logits += r * rows.length;
  const float top = MaxOf(row, rows, logits);
  const float total = SumExpOf(row, rows, logits, top);
  if (row.IsFirst()) max[r] = top, sum[r] = total;
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
    PickSmoothed(Rows rows, const T* logits, const int32_t* labels, float* picked,
                 HeldClasses classes, SmoothedTarget target, DeviceErrors errors) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows.count) return;
  logits += r * rows.length;
  const float sum =
      row.template Sum<kPack<T>>(rows, [&](int64_t i, auto& term) { Load(logits + i, term); });
  if (!row.IsFirst()) return;
  const int64_t column = classes.ColumnOf(labels[r], r, true, errors);
  const float of_label = classes.Holds(column) ? Widen(logits[column]) : 0;
  picked[r] = target.label * of_label + target.share * sum;
}

__global__ void __launch_bounds__(kElementwiseThreads)
    Combine(const float* max, const float* sum, const float* picked, float* loss,
            Elements elements) {
  ForElements<kPack<float>>(elements, [=]<int count>(int64_t i, Count<count>) {
    F top[count], total[count], of_label[count];
    Load(max + i, top);
    Load(sum + i, total);
    Load(picked + i, of_label);
    for (int e = 0; e < count; ++e) top[e] = CrossEntropyOf(top[e], total[e], of_label[e]);
    Store(top, loss + i);
  });
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
    GradientRows(Rows rows, GradientOperands<T> at, HeldClasses classes, SmoothedTarget target,
                 DeviceErrors errors) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows.count) return;
  const T* const logits = at.logits + r * rows.length;
  T* const dlogits = at.dlogits + r * rows.length;
  const float top = at.max[r], dpicked = at.dpicked[r], factor = -dpicked / at.sum[r];
  const float alike = dpicked * target.share;
  const int64_t of_label = classes.ColumnOf(at.labels[r], r, row.IsFirst(), errors);
  row.template ForEach<kPack<T>>(rows, [&]<int count>(int64_t i, Count<count>) {
    float a[count];
    Load(logits + i, a);
    for (int e = 0; e < count; ++e) {
      const float slope = factor * Exp(a[e] - top) + alike;
      a[e] = i + e == of_label ? slope + target.label * dpicked : slope;
    }
    Store(a, dlogits + i);
  });
}

__global__ void __launch_bounds__(kElementwiseThreads)
    SigmoidLoss(const float* logits, const float* labels, float* loss, Elements elements) {
  ForElements<kPack<float>>(elements, [=]<int count>(int64_t i, Count<count>) {
    F a[count], label[count];
    Load(logits + i, a);
    Load(labels + i, label);
    for (int e = 0; e < count; ++e) a[e] = SigmoidCrossEntropyOf(a[e], label[e]);
    Store(a, loss + i);
  });
}

__global__ void __launch_bounds__(kElementwiseThreads)
    SigmoidGradient(const float* logits, const float* labels, const float* dloss, float* dlogits,
                    Elements elements) {
  ForElements<kPack<float>>(elements, [=]<int count>(int64_t i, Count<count>) {
    F a[count], label[count], slope[count];
    Load(logits + i, a);
    Load(labels + i, label);
    Load(dloss + i, slope);
    for (int e = 0; e < count; ++e) a[e] = SigmoidCrossEntropyGradientOf(a[e], label[e], slope[e]);
    Store(a, dlogits + i);
  });
}

// Of logits, and beside them one f32 a row for each other operand. launch(context, rows, logits,
// at).
template <typename LaunchFold>
PreparedKernel PrepareFold(const KernelSpec& spec, const LaunchFold& launch) {
  const DType dtype = spec.inputs[0].dtype;
  std::vector<DType> types(spec.inputs.size() + spec.outputs.size(), DType::kF32);
  types[0] = dtype;
  RETURN_IF_ERROR(RequireTypes(spec, types));
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([=](const KernelContext& context, const Operands& at) {
      const T* const logits = at.at<T>(0);
      return launch(context, RowsOf<T>(rows, width, logits), logits, at);
    });
  });
}

}  // namespace

PreparedKernel PrepareCrossEntropyMax(const KernelSpec& spec) {
  return PrepareFold(spec, []<typename T>(const KernelContext& context, const Rows& rows,
                                          const T* logits, const Operands& at) {
    return LaunchRows(context, rows, MaxRows<WarpRow, T>, MaxRows<BlockRow, T>, logits, at.at(1));
  });
}

PreparedKernel PrepareCrossEntropySumExp(const KernelSpec& spec) {
  return PrepareFold(spec, []<typename T>(const KernelContext& context, const Rows& rows,
                                          const T* logits, const Operands& at) {
    return LaunchRows(context, rows, SumExpRows<WarpRow, T>, SumExpRows<BlockRow, T>, logits,
                      at.at(1), at.at(2));
  });
}

PreparedKernel PrepareCrossEntropyMaxAndSumExp(const KernelSpec& spec) {
  return PrepareFold(spec, []<typename T>(const KernelContext& context, const Rows& rows,
                                          const T* logits, const Operands& at) {
    return LaunchRows(context, rows, MaxAndSumExpRows<WarpRow, T>, MaxAndSumExpRows<BlockRow, T>,
                      logits, at.at(1), at.at(2));
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
        const T* const logits = at.at<T>(0);
        return LaunchRows(context, RowsOf<T>(rows, classes.held, logits), PickSmoothed<WarpRow, T>,
                          PickSmoothed<BlockRow, T>, logits, at.at<int32_t>(1), at.at(2), held,
                          target, errors);
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
    return LaunchOver<float>(context, n, Combine, at.at(0), at.at(1), at.at(2), at.at(3));
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
      return LaunchRows(context, RowsOf<T>(rows, classes.held, operands.logits, operands.dlogits),
                        GradientRows<WarpRow, T>, GradientRows<BlockRow, T>, operands,
                        HeldClasses(classes, context.micro), target, StreamOf(context).errors());
    });
  });
}

PreparedKernel PrepareSigmoidCrossEntropy(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  const int64_t n = spec.outputs[0].NumElements();
  return MakeKernel([n](const KernelContext& context, const Operands& at) -> absl::Status {
    return LaunchOver<float>(context, n, SigmoidLoss, at.at(0), at.at(1), at.at(2));
  });
}

PreparedKernel PrepareSigmoidCrossEntropyGradient(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  const int64_t n = spec.outputs[0].NumElements();
  return MakeKernel([n](const KernelContext& context, const Operands& at) -> absl::Status {
    return LaunchOver<float>(context, n, SigmoidGradient, at.at(0), at.at(1), at.at(2), at.at(3));
  });
}

}  // namespace sluice::cuda
