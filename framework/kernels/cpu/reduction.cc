// Reductions over chosen dimensions, and the sum of squares. Sums have one order, whatever the
// number of threads: rows are summed whole, columns and a sum over everything are cut into blocks
// by size.
#include "framework/kernels/cpu/all_kernels.h"
#include "framework/kernels/cpu/column_sums.h"
#include "framework/kernels/cpu/strided.h"
#include "framework/kernels/cpu/vector.h"
#include "framework/kernels/reduced_shape.h"

namespace sluice::cpu {
namespace {

// The sum of everything in f64, in blocks whose size depends on n alone.
constexpr int64_t kMaxBlocks = 16;

template <typename BlockSum>
double BlockedSum(const KernelContext& context, int64_t n, double* sums, BlockSum&& block_sum) {
  const int64_t block = std::max<int64_t>(4096, ((n + kMaxBlocks - 1) / kMaxBlocks + 15) / 16 * 16);
  const int64_t blocks = (n + block - 1) / block;
  ParallelRows(context, blocks, block, kCheapGrain, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      sums[b] = block_sum(b * block, std::min(block, n - b * block));
    }
  });
  double sum = 0;
  for (int64_t b = 0; b < blocks; ++b) sum += sums[b];
  return sum;
}

template <typename T>
PreparedKernel ReduceAll(int64_t n, double scale) {
  return MakeKernel(
      [n, scale](const KernelContext& context, const Operands& at) {
        const T* x = at.at<T>(0);
        *at.at(1) = static_cast<float>(scale * BlockedSum(context, n, at.scratch<double>(),
                                                          [x](int64_t begin, int64_t length) {
                                                            return Vectors().of<T>().reduction.sum(
                                                                x + begin, length);
                                                          }));
      },
      kMaxBlocks * 8);
}

void ScaleBy(float scale, float* y, int64_t n) {
  if (scale != 1) Vectors().f32.elementwise.scale(y, scale, y, n);
}

template <typename T>
PreparedKernel ReduceRows(const ReducedShape& kept, int which, float scale) {
  return MakeKernel([kept, which, scale](const KernelContext& context, const Operands& at) {
    const T* x = at.at<T>(0);
    float* y = at.at(1);
    ParallelRows(context, kept.outer, kept.reduced, kCheapGrain, [&](int64_t begin, int64_t end) {
      const auto row = Vectors().of<T>().reduction.row[which];
      for (int64_t r = begin; r < end; ++r) y[r] = row(x + r * kept.reduced, kept.reduced);
      ScaleBy(scale, y + begin, end - begin);
    });
  });
}

// Blocks of rows are read as they lie. The means of batch norm, with few columns and tens of
// thousands of rows, take less than half of the time that they took split by columns, which read a
// line of memory for some of its elements and left 64 channels to one thread.
template <typename T>
PreparedKernel SumColumns(const ReducedShape& kept, float scale) {
  const ColumnSums sums(kept.outer, kept.reduced, kept.inner, 1);
  return MakeKernel(
      [sums, kept, scale](const KernelContext& context, const Operands& at) {
        const T* x = at.at<T>(0);
        float* y = at.at(1);
        const auto columns = Vectors().of<T>().reduction.columns[0];
        const auto of_rows = [&](int64_t group, int64_t begin, int64_t end, float* to) {
          columns(x + (group * kept.reduced + begin) * kept.inner, end - begin, kept.inner, to,
                  kept.inner);
        };
        sums.Run(context, at.scratch<float>(), of_rows, [&](int64_t group, const float* sum) {
          Vectors().f32.elementwise.scale(sum, scale, y + group * kept.inner, kept.inner);
        });
      },
      sums.scratch());
}

template <typename T>
PreparedKernel ReduceColumns(const ReducedShape& kept, int which, float scale) {
  return MakeKernel([kept, which, scale](const KernelContext& context, const Operands& at) {
    const T* x = at.at<T>(0);
    float* y = at.at(1);
    const auto columns = Vectors().of<T>().reduction.columns[which];
    const auto some = [&](int64_t o, int64_t begin, int64_t end) {
      const int64_t first = o * kept.inner + begin;
      columns(x + o * kept.reduced * kept.inner + begin, kept.reduced, kept.inner, y + first,
              end - begin);
      ScaleBy(scale, y + first, end - begin);
    };
    if (kept.outer > 1) {
      ParallelRows(context, kept.outer, kept.reduced * kept.inner, kCheapGrain,
                   [&](int64_t begin, int64_t end) {
                     for (int64_t o = begin; o < end; ++o) some(o, 0, kept.inner);
                   });
    } else if (kept.outer == 1) {
      const int64_t grain = std::max<int64_t>(64, kCheapGrain / std::max<int64_t>(kept.reduced, 1));
      Parallel(context, kept.inner, grain,
               [&](int64_t begin, int64_t end) { some(0, begin, end); });
    }
  });
}

// to = to combined with x, in f32.
void CombineRows(BinaryLoop<float> combine, const float* x, float* to, int64_t n) {
  combine(to, x, to, n);
}
void CombineRows(BinaryLoop<float> combine, const BFloat16* x, float* to, int64_t n) {
  constexpr int64_t kBlock = 1024;
  float widened[kBlock];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t some = std::min(kBlock, n - i);
    Vectors().arithmetic.from_bf16(x + i, widened, some);
    combine(to + i, widened, to + i, some);
  }
}

// Reduced dimensions apart from each other: element by element, in order.
template <typename T>
PreparedKernel ReduceGeneral(const KernelSpec& spec, const ReduceAttributes& attributes,
                             float scale) {
  const Shape& shape = spec.inputs[0].local;
  const Shape kept = spec.outputs[0].local.Strides();
  Shape strides;
  for (int d = 0, k = 0; d < shape.rank(); ++d) {
    const bool reduces =
        std::find(attributes.dims.begin(), attributes.dims.end(), d) != attributes.dims.end();
    strides.Append(reduces ? 0 : kept[k++]);
  }
  const StridedLoop loop(shape, {shape.Strides(), strides});
  const int64_t n = spec.outputs[0].NumElements();
  const Reduction reduction = attributes.reduction;
  const int which = static_cast<int>(reduction) - 1;
  return MakeKernel([=](const KernelContext&, const Operands& at) {
    const T* x = at.at<T>(0);
    float* y = at.at(1);
    const ElementwiseVector<float>& loops = Vectors().f32.elementwise;
    const BinaryLoop<float> combine = reduction == Reduction::kSum   ? loops.add.both
                                      : reduction == Reduction::kMax ? loops.maximum
                                                                     : loops.minimum;
    Vectors().arithmetic.fill(
        reduction == Reduction::kSum ? 0 : static_cast<float>(IdentityOf(reduction)), y, n);
    loop.ForRows(0, loop.rows(), [&](const int64_t* offsets, int64_t length) {
      float* to = y + offsets[1];
      if (loop.row_stride(1) != 0) {
        CombineRows(combine, x + offsets[0], to, length);
      } else {
        const float row = Vectors().of<T>().reduction.row[which](x + offsets[0], length);
        combine(to, &row, to, 1);
      }
    });
    ScaleBy(scale, y, n);
  });
}

}  // namespace

// What is summed up is f32, of bf16 too.
PreparedKernel PrepareReduce(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireTypes(spec, {dtype, DType::kF32}));
  ASSIGN_OR_RETURN(const ReduceAttributes attributes,
                   ParseAttributes<ReduceAttributes>(spec.attributes));
  double scale = 1;
  if (attributes.mean) {
    for (int64_t d : attributes.dims) {
      scale /= static_cast<double>(spec.inputs[0].logical[static_cast<int>(d)]);
    }
  }
  const int which = static_cast<int>(attributes.reduction) - 1;
  const ReducedShape kept(spec.inputs[0].local, attributes.dims);
  return OfFloat(spec, dtype, [&]<typename T>(T) -> PreparedKernel {
    const float factor = static_cast<float>(scale);
    if (!kept.contiguous) return ReduceGeneral<T>(spec, attributes, factor);
    if (attributes.reduction == Reduction::kSum && kept.outer == 1 && kept.inner == 1) {
      return ReduceAll<T>(kept.reduced, scale);
    }
    if (kept.inner == 1) return ReduceRows<T>(kept, which, factor);
    if (attributes.reduction == Reduction::kSum && kept.reduced >= kManyRows) {
      return SumColumns<T>(kept, factor);
    }
    return ReduceColumns<T>(kept, which, factor);
  });
}

PreparedKernel PrepareSumSquares(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  const int64_t n = spec.inputs[0].NumElements();
  return MakeKernel(
      [n](const KernelContext& context, const Operands& at) {
        const float* x = at.at(0);
        *at.at(1) = static_cast<float>(
            BlockedSum(context, n, at.scratch<double>(), [x](int64_t begin, int64_t length) {
              return Vectors().f32.reduction.sum_squares(x + begin, length);
            }));
      },
      kMaxBlocks * 8);
}

}  // namespace sluice::cpu
