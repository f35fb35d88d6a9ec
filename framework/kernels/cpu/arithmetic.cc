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

// `loops` gives the three loops of an op out of a table of loops.
template <typename Loops>
PreparedKernel PrepareBinaryFloat(const KernelSpec& spec, Loops&& loops) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireAll(spec, dtype));
  const StridedLoop loop = BinaryLoopOf(spec);
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    const auto three = loops(Vectors().of<T>().elementwise);
    // In the innermost dimension an operand is walked by ones, or is one element for all.
    const BinaryLoop<T> row = loop.row_stride(0) == 0   ? three.scalar_a
                              : loop.row_stride(1) == 0 ? three.scalar_b
                                                        : three.both;
    return MakeKernel([loop, row](const KernelContext& context, const Operands& at) {
      const T *a = at.at<T>(0), *b = at.at<T>(1);
      T* y = at.at<T>(2);
      loop.ForAll(context, kCheapGrain, [&](const int64_t* offsets, int64_t n) {
        row(a + offsets[0], b + offsets[1], y + offsets[2], n);
      });
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
  return PrepareBinaryFloat(spec, [](const auto& loops) { return loops.add; });
}

PreparedKernel PrepareSubtract(const KernelSpec& spec) {
  if (AllI32(spec)) return PrepareBinaryI32(spec, [](uint32_t a, uint32_t b) { return a - b; });
  return PrepareBinaryFloat(spec, [](const auto& loops) { return loops.subtract; });
}

PreparedKernel PrepareMultiply(const KernelSpec& spec) {
  if (AllI32(spec)) return PrepareBinaryI32(spec, [](uint32_t a, uint32_t b) { return a * b; });
  return PrepareBinaryFloat(spec, [](const auto& loops) { return loops.multiply; });
}

PreparedKernel PrepareDivide(const KernelSpec& spec) {
  return PrepareBinaryFloat(spec, [](const auto& loops) { return loops.divide; });
}

PreparedKernel PrepareScale(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireAll(spec, dtype));
  ASSIGN_OR_RETURN(const ScaleAttributes attributes,
                   ParseAttributes<ScaleAttributes>(spec.attributes));
  const float factor = static_cast<float>(attributes.factor);
  const int64_t n = spec.outputs[0].NumElements();
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([n, factor](const KernelContext& context, const Operands& at) {
      const T* x = at.at<T>(0);
      T* y = at.at<T>(1);
      Parallel(context, n, kCheapGrain, [&](int64_t begin, int64_t end) {
        Vectors().of<T>().elementwise.scale(x + begin, factor, y + begin, end - begin);
      });
    });
  });
}

namespace {

// In blocks that stay in cache over all terms.
constexpr int64_t kTermBlock = 4096;

// f32 terms are added up where they go; those of bf16 in f32, to be rounded once.
void AddTerms(const Operands& at, int terms, int64_t from, int64_t n, float) {
  float* const y = at.at(terms) + from;
  const float* sum = at.at(0) + from;
  if (terms == 1) std::copy(sum, sum + n, y);
  for (int i = 1; i < terms; ++i, sum = y) {
    Vectors().f32.elementwise.add.both(sum, at.at(i) + from, y, n);
  }
}

void AddTerms(const Operands& at, int terms, int64_t from, int64_t n, BFloat16) {
  float sum[kTermBlock];
  Vectors().arithmetic.from_bf16(at.at<BFloat16>(0) + from, sum, n);
  for (int i = 1; i < terms; ++i) {
    Vectors().bf16.elementwise.add_to_f32(at.at<BFloat16>(i) + from, sum, n);
  }
  Vectors().arithmetic.to_bf16(sum, at.at<BFloat16>(terms) + from, n);
}

}  // namespace

PreparedKernel PrepareAddN(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireAll(spec, dtype));
  const int64_t n = spec.outputs[0].NumElements();
  const int terms = static_cast<int>(spec.inputs.size());
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([n, terms](const KernelContext& context, const Operands& at) {
      Parallel(context, n, kCheapGrain, [&](int64_t begin, int64_t end) {
        for (int64_t from = begin; from < end; from += kTermBlock) {
          AddTerms(at, terms, from, std::min(kTermBlock, end - from), T());
        }
      });
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
