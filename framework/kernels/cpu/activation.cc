// Activations, softmax over the last dimension, and dropout.
#include "framework/kernels/cpu/all_kernels.h"
#include "framework/kernels/cpu/strided.h"
#include "framework/kernels/cpu/vector.h"
#include "framework/tensor/random.h"

namespace sluice::cpu {
namespace {

// A kernel that maps each element of input 0 by a loop: `loop` gives the one of a table of loops.
template <typename Loop>
PreparedKernel PrepareUnary(const KernelSpec& spec, int64_t grain, Loop&& loop) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireAll(spec, dtype));
  const int64_t n = spec.outputs[0].NumElements();
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    const UnaryLoop<T> run = loop(Vectors().of<T>().activation);
    return MakeKernel([n, grain, run](const KernelContext& context, const Operands& at) {
      const T* x = at.at<T>(0);
      T* y = at.at<T>(1);
      Parallel(context, n, grain,
               [&](int64_t begin, int64_t end) { run(x + begin, y + begin, end - begin); });
    });
  });
}

template <typename Loop>
PreparedKernel PrepareTwo(const KernelSpec& spec, int64_t grain, Loop&& loop) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireAll(spec, dtype));
  const int64_t n = spec.outputs[0].NumElements();
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    const BinaryLoop<T> run = loop(Vectors().of<T>().activation);
    return MakeKernel([n, grain, run](const KernelContext& context, const Operands& at) {
      const T *a = at.at<T>(0), *b = at.at<T>(1);
      T* y = at.at<T>(2);
      Parallel(context, n, grain, [&](int64_t begin, int64_t end) {
        run(a + begin, b + begin, y + begin, end - begin);
      });
    });
  });
}

}  // namespace

PreparedKernel PrepareGelu(const KernelSpec& spec) {
  return PrepareUnary(spec, kCostlyGrain, [](const auto& loops) { return loops.gelu; });
}

PreparedKernel PrepareGeluGradient(const KernelSpec& spec) {
  return PrepareTwo(spec, kCostlyGrain, [](const auto& loops) { return loops.gelu_gradient; });
}

PreparedKernel PrepareGeluErf(const KernelSpec& spec) {
  return PrepareUnary(spec, kCostlyGrain, [](const auto& loops) { return loops.gelu_erf; });
}

PreparedKernel PrepareGeluErfGradient(const KernelSpec& spec) {
  return PrepareTwo(spec, kCostlyGrain, [](const auto& loops) { return loops.gelu_erf_gradient; });
}

PreparedKernel PrepareTanh(const KernelSpec& spec) {
  return PrepareUnary(spec, kCostlyGrain, [](const auto& loops) { return loops.tanh; });
}

PreparedKernel PrepareTanhGradient(const KernelSpec& spec) {
  return PrepareTwo(spec, kCheapGrain, [](const auto& loops) { return loops.tanh_gradient; });
}

PreparedKernel PrepareSilu(const KernelSpec& spec) {
  return PrepareUnary(spec, kCostlyGrain, [](const auto& loops) { return loops.silu; });
}

PreparedKernel PrepareSiluGradient(const KernelSpec& spec) {
  return PrepareTwo(spec, kCostlyGrain, [](const auto& loops) { return loops.silu_gradient; });
}

PreparedKernel PrepareSigmoid(const KernelSpec& spec) {
  return PrepareUnary(spec, kCostlyGrain, [](const auto& loops) { return loops.sigmoid; });
}

PreparedKernel PrepareSigmoidGradient(const KernelSpec& spec) {
  return PrepareTwo(spec, kCheapGrain, [](const auto& loops) { return loops.sigmoid_gradient; });
}

PreparedKernel PrepareRelu(const KernelSpec& spec) {
  return PrepareUnary(spec, kCheapGrain, [](const auto& loops) { return loops.relu; });
}

PreparedKernel PrepareReluGradient(const KernelSpec& spec) {
  return PrepareTwo(spec, kCheapGrain, [](const auto& loops) { return loops.relu_gradient; });
}

PreparedKernel PrepareSoftmax(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireAll(spec, dtype));
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([rows, width](const KernelContext& context, const Operands& at) {
      const T* x = at.at<T>(0);
      T* y = at.at<T>(1);
      ParallelRows(context, rows, width, kCostlyGrain, [&](int64_t begin, int64_t end) {
        Vectors().of<T>().activation.softmax(x + begin * width, y + begin * width, end - begin,
                                             width);
      });
    });
  });
}

PreparedKernel PrepareSoftmaxGradient(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireAll(spec, dtype));
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([rows, width](const KernelContext& context, const Operands& at) {
      const T *y = at.at<T>(0), *dy = at.at<T>(1);
      T* dx = at.at<T>(2);
      ParallelRows(context, rows, width, kCostlyGrain, [&](int64_t begin, int64_t end) {
        const int64_t first = begin * width;
        Vectors().of<T>().activation.softmax_gradient(y + first, dy + first, dx + first,
                                                      end - begin, width);
      });
    });
  });
}

// Draws by logical index: a row of the shard is a run of consecutive logical indices.
PreparedKernel PrepareDropout(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireAll(spec, dtype));
  ASSIGN_OR_RETURN(const DropoutAttributes attributes,
                   ParseAttributes<DropoutAttributes>(spec.attributes));
  const Shard& x = spec.inputs[0];
  const Shape logical = x.logical.Strides();
  const StridedLoop loop(x.local, {x.local.Strides(), logical});
  int64_t first = 0, per_micro = 0;
  for (int d = 0; d < x.local.rank(); ++d) {
    first += x.offset[d] * logical[d];
    per_micro += x.stride_per_micro[d] * logical[d];
  }
  const uint32_t threshold = DropoutThreshold(attributes.rate);
  const float scale = static_cast<float>(1 / (1 - attributes.rate));
  const int64_t key = attributes.key;
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([=](const KernelContext& context, const Operands& at) {
      const std::array<uint32_t, 2> keys = PhiloxKey(context.seed, key);
      const Draw draw = {keys[0], keys[1], context.step};
      const int64_t base = first + context.micro * per_micro;
      const auto dropout = Vectors().of<T>().activation.dropout;
      const T* from = at.at<T>(0);
      T* to = at.at<T>(1);
      // A last dimension cut to one element leaves rows whose logical indices are far apart.
      const int64_t step = loop.row_stride(1);
      loop.ForAll(context, kCostlyGrain, [&](const int64_t* offsets, int64_t n) {
        const int64_t local = offsets[0], start = base + offsets[1];
        if (step == 1 || n == 1) {
          dropout(draw, threshold, scale, start, from + local, to + local, n);
          return;
        }
        for (int64_t i = 0; i < n; ++i) {
          dropout(draw, threshold, scale, start + i * step, from + local + i, to + local + i, 1);
        }
      });
    });
  });
}

}  // namespace sluice::cpu
