// Elementwise arithmetic. Operands broadcast by their logical shapes: a shard may hold one element
// of a dimension that is long in the whole.
#include "framework/kernels/cpu/all_kernels.h"
#include "framework/kernels/cpu/strided.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu {
namespace {

StridedLoop BinaryLoopOf(const KernelSpec& spec) {
  const Shard& y = spec.outputs[0];
  return StridedLoop(y.local, {BroadcastStrides(spec.inputs[0], y),
                               BroadcastStrides(spec.inputs[1], y), y.local.Strides()});
}

PreparedKernel PrepareBinaryF32(const KernelSpec& spec, const ArithmeticVector::Binary& loops) {
  const StridedLoop loop = BinaryLoopOf(spec);
  // In the innermost dimension an operand is walked by ones, or is one element for all.
  const BinaryLoop row = loop.row_stride(0) == 0   ? loops.scalar_a
                         : loop.row_stride(1) == 0 ? loops.scalar_b
                                                   : loops.both;
  return MakeKernel([loop, row](const KernelContext& context, const Operands& at) {
    const float *a = at.at(0), *b = at.at(1);
    float* y = at.at(2);
    loop.ForAll(context, kCheapGrain, [&](const int64_t* offsets, int64_t n) {
      row(a + offsets[0], b + offsets[1], y + offsets[2], n);
    });
  });
}

// Wraps around like unsigned numbers.
template <typename Op>
PreparedKernel PrepareBinaryI32(const KernelSpec& spec, Op op) {
  const StridedLoop loop = BinaryLoopOf(spec);
  return MakeKernel([loop, op](const KernelContext& context, const Operands& at) {
    const uint32_t *a = at.at<uint32_t>(0), *b = at.at<uint32_t>(1);
    uint32_t* y = at.at<uint32_t>(2);
    const int64_t step_a = loop.row_stride(0), step_b = loop.row_stride(1);
    loop.ForAll(context, kCheapGrain, [&](const int64_t* offsets, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        y[offsets[2] + i] = op(a[offsets[0] + i * step_a], b[offsets[1] + i * step_b]);
      }
    });
  });
}

bool AllI32(const KernelSpec& spec) {
  return spec.inputs[0].dtype == DType::kI32 && spec.inputs[1].dtype == DType::kI32 &&
         spec.outputs[0].dtype == DType::kI32;
}

}  // namespace

PreparedKernel PrepareAdd(const KernelSpec& spec) {
  if (AllI32(spec)) return PrepareBinaryI32(spec, [](uint32_t a, uint32_t b) { return a + b; });
  RETURN_IF_ERROR(RequireF32(spec));
  return PrepareBinaryF32(spec, Vectors().arithmetic.add);
}

PreparedKernel PrepareSubtract(const KernelSpec& spec) {
  if (AllI32(spec)) return PrepareBinaryI32(spec, [](uint32_t a, uint32_t b) { return a - b; });
  RETURN_IF_ERROR(RequireF32(spec));
  return PrepareBinaryF32(spec, Vectors().arithmetic.subtract);
}

PreparedKernel PrepareMultiply(const KernelSpec& spec) {
  if (AllI32(spec)) return PrepareBinaryI32(spec, [](uint32_t a, uint32_t b) { return a * b; });
  RETURN_IF_ERROR(RequireF32(spec));
  return PrepareBinaryF32(spec, Vectors().arithmetic.multiply);
}

PreparedKernel PrepareDivide(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  return PrepareBinaryF32(spec, Vectors().arithmetic.divide);
}

PreparedKernel PrepareScale(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  ASSIGN_OR_RETURN(const ScaleAttributes attributes,
                   ParseAttributes<ScaleAttributes>(spec.attributes));
  const float factor = static_cast<float>(attributes.factor);
  const int64_t n = spec.outputs[0].NumElements();
  return MakeKernel([n, factor](const KernelContext& context, const Operands& at) {
    const float* x = at.at(0);
    float* y = at.at(1);
    Parallel(context, n, kCheapGrain, [&](int64_t begin, int64_t end) {
      Vectors().arithmetic.scale(x + begin, factor, y + begin, end - begin);
    });
  });
}

PreparedKernel PrepareAddN(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  const int64_t n = spec.outputs[0].NumElements();
  const int terms = static_cast<int>(spec.inputs.size());
  return MakeKernel([n, terms](const KernelContext& context, const Operands& at) {
    const BinaryLoop add = Vectors().arithmetic.add.both;
    float* y = at.at(terms);
    Parallel(context, n, kCheapGrain, [&](int64_t begin, int64_t end) {
      // In blocks that stay in cache over all terms.
      for (int64_t from = begin; from < end; from += 4096) {
        const int64_t length = std::min<int64_t>(4096, end - from);
        const float* sum = at.at(0) + from;
        if (terms == 1) std::copy(sum, sum + length, y + from);
        for (int i = 1; i < terms; ++i, sum = y + from) {
          add(sum, at.at(i) + from, y + from, length);
        }
      }
    });
  });
}

PreparedKernel PrepareSqrt(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  const int64_t n = spec.outputs[0].NumElements();
  return MakeKernel([n](const KernelContext& context, const Operands& at) {
    const float* x = at.at(0);
    float* y = at.at(1);
    Parallel(context, n, kCheapGrain, [&](int64_t begin, int64_t end) {
      Vectors().arithmetic.sqrt(x + begin, y + begin, end - begin);
    });
  });
}

}  // namespace sluice::cpu
