// The four steps of softmax cross entropy and the gradient of their chain; sigmoid cross entropy. A
// shard of a split vocabulary has the labels' columns of its own range; the others are some other
// shard's.
#include "framework/kernels/cpu/all_kernels.h"
#include "framework/kernels/cpu/classes.h"
#include "framework/kernels/cpu/vector.h"
#include "framework/kernels/smoothed_target.h"
#include "framework/tensor/array.h"

namespace sluice::cpu {
PreparedKernel PrepareCrossEntropyMax(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireTypes(spec, {dtype, DType::kF32}));
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([rows, width](const KernelContext& context, const Operands& at) {
      const T* logits = at.at<T>(0);
      float* max = at.at(1);
      ParallelRows(context, rows, width, kCheapGrain, [&](int64_t begin, int64_t end) {
        const auto row_max = Vectors().of<T>().reduction.row[static_cast<int>(Reduction::kMax) - 1];
        for (int64_t r = begin; r < end; ++r) max[r] = row_max(logits + r * width, width);
      });
    });
  });
}

PreparedKernel PrepareCrossEntropySumExp(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireTypes(spec, {dtype, DType::kF32, DType::kF32}));
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([rows, width](const KernelContext& context, const Operands& at) {
      const T* logits = at.at<T>(0);
      const float* max = at.at(1);
      float* sum = at.at(2);
      ParallelRows(context, rows, width, kCostlyGrain, [&](int64_t begin, int64_t end) {
        Vectors().of<T>().cross_entropy.sum_exp(logits + begin * width, max + begin, sum + begin,
                                                end - begin, width);
      });
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
    return MakeKernel([rows, classes, dtype, target](const KernelContext& context,
                                                     const Operands& at) -> absl::Status {
      const int32_t* labels = at.at<int32_t>(1);
      float* picked = at.at(2);
      RETURN_IF_ERROR(CheckLabels("ce_pick", labels, rows, classes.whole));
      const int64_t first = classes.BeginAt(context.micro);
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t column = labels[r] - first;
        const bool held = column >= 0 && column < classes.held;
        picked[r] =
            held ? static_cast<float>(LoadElement(dtype, at.bytes(0), r * classes.held + column))
                 : 0;
      }
      if (target.share == 0) return absl::OkStatus();
      ParallelRows(context, rows, classes.held, kCheapGrain, [&](int64_t begin, int64_t end) {
        const auto row_sum = Vectors().of<T>().reduction.row[static_cast<int>(Reduction::kSum) - 1];
        for (int64_t r = begin; r < end; ++r) {
          const float sum = row_sum(at.at<T>(0) + r * classes.held, classes.held);
          picked[r] = target.label * picked[r] + target.share * sum;
        }
      });
      return absl::OkStatus();
    });
  });
}

PreparedKernel PrepareCrossEntropyCombine(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  const int64_t n = spec.outputs[0].NumElements();
  return MakeKernel([n](const KernelContext& context, const Operands& at) {
    const float *max = at.at(0), *sum = at.at(1), *picked = at.at(2);
    float* loss = at.at(3);
    Parallel(context, n, kCostlyGrain, [&](int64_t begin, int64_t end) {
      Vectors().f32.cross_entropy.combine(max + begin, sum + begin, picked + begin, loss + begin,
                                          end - begin);
    });
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
    return MakeKernel([rows, classes, dtype, target](const KernelContext& context,
                                                     const Operands& at) -> absl::Status {
      const T* logits = at.at<T>(0);
      const float *max = at.at(1), *sum = at.at(2), *dpicked = at.at(4);
      const int32_t* labels = at.at<int32_t>(3);
      T* dlogits = at.at<T>(5);
      const int64_t width = classes.held, first = classes.BeginAt(context.micro);
      RETURN_IF_ERROR(CheckLabels("ce_gradient", labels, rows, classes.whole));
      ParallelRows(context, rows, width, kCostlyGrain, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          // What dpicked is added to is not rounded before: where a label is all but certain
          // little is left of the two. The logit is read before dlogits may take its place.
          const int64_t column = labels[r] - first, at_label = r * width + column;
          const bool held = column >= 0 && column < width;
          float label = 0;
          if (held) {
            const float logit = static_cast<float>(
                LoadElement(dtype, reinterpret_cast<const std::byte*>(logits), at_label));
            Vectors().f32.cross_entropy.gradient(&logit, max + r, sum + r, dpicked + r,
                                                 target.share, &label, 1, 1);
          }
          Vectors().of<T>().cross_entropy.gradient(logits + r * width, max + r, sum + r,
                                                   dpicked + r, target.share, dlogits + r * width,
                                                   1, width);
          if (held) {
            StoreElement(dtype, reinterpret_cast<std::byte*>(dlogits), at_label,
                         static_cast<double>(label + target.label * dpicked[r]));
          }
        }
      });
      return absl::OkStatus();
    });
  });
}

PreparedKernel PrepareSigmoidCrossEntropy(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  const int64_t n = spec.outputs[0].NumElements();
  return MakeKernel([n](const KernelContext& context, const Operands& at) {
    Parallel(context, n, kCostlyGrain, [&](int64_t begin, int64_t end) {
      Vectors().sigmoid_cross_entropy.loss(at.at(0) + begin, at.at(1) + begin, at.at(2) + begin,
                                           end - begin);
    });
  });
}

PreparedKernel PrepareSigmoidCrossEntropyGradient(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  const int64_t n = spec.outputs[0].NumElements();
  return MakeKernel([n](const KernelContext& context, const Operands& at) {
    Parallel(context, n, kCostlyGrain, [&](int64_t begin, int64_t end) {
      Vectors().sigmoid_cross_entropy.gradient(at.at(0) + begin, at.at(1) + begin, at.at(2) + begin,
                                               at.at(3) + begin, end - begin);
    });
  });
}

}  // namespace sluice::cpu
