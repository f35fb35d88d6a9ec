// Layer normalization over the last dimension, with the bits of the CPU.
#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/columns.h"
#include "framework/kernels/cuda/philox.h"
#include "framework/kernels/cuda/row_values.h"
#include "framework/kernels/cuda/strided_index.h"

namespace sluice::cuda {
namespace {

// Of kernels that read or write T, and f32 beside it.
template <typename... T>
constexpr int kWidth = std::max({kPack<float>, kPack<T>...});

// Where layer norm's result goes, and in what.
template <typename T>
struct NormResult {
  using Narrowest = T;
  T* y;
  template <int n>
  SLUICE_INLINE void Keep(int64_t i, const float (&made)[n]) const {
    Store(made, y + i);
  }
};
// As it is, and in bf16.
struct NormResultAndCast {
  using Narrowest = uint16_t;
  float* y;
  uint16_t* low;
  template <int n>
  SLUICE_INLINE void Keep(int64_t i, const float (&made)[n]) const {
    Store(made, y + i);
    Store(made, low + i);
  }
};

// What layer norm takes besides its rows, and what it makes.
template <typename Result>
struct NormOperands {
  const float *gamma, *beta;
  float epsilon;
  Result result;
  float *mean, *rstd;
};

// Of row r, whose elements `x` has.
template <typename Row, typename Values, typename Result>
SLUICE_INLINE void NormalizeRow(const Row& row, const Rows& rows, int64_t r,
                                const NormOperands<Result>& norm, const Values& x) {
  const float count = static_cast<float>(rows.length);
  const float center = x.Sum([]<int n>(const float(&a)[1][n], float(&term)[n]) {
    for (int e = 0; e < n; ++e) term[e] = a[0][e];
  }) / count;
  const float squares = x.Sum([=]<int n>(const float(&a)[1][n], float(&term)[n]) {
    for (int e = 0; e < n; ++e) term[e] = (a[0][e] - center) * (a[0][e] - center);
  });
  const float scale = 1 / sqrtf(squares / count + norm.epsilon);
  const Result result = norm.result;
  const int64_t begin = r * rows.length;
  x.ForEach([=]<int n>(int64_t i, const float(&a)[1][n]) {
    float b[n], factor[n], shift[n];
    Load(norm.gamma + i, factor);
    Load(norm.beta + i, shift);
    for (int e = 0; e < n; ++e) b[e] = fmaf((a[0][e] - center) * scale, factor[e], shift[e]);
    result.Keep(begin + i, b);
  });
  if (row.IsFirst()) {
    norm.mean[r] = center;
    norm.rstd[r] = scale;
  }
}

template <typename Row>
__global__ void __launch_bounds__(kRowThreads)
    LayerNormRows(Rows rows, const float* x, NormOperands<NormResult<float>> norm) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows.count) return;
  x += r * rows.length;
  NormalizeRow(row, rows, r, norm,
               ValuesOf<kWidth<>, 1>(
                   row, rows, [=]<int n>(int64_t i, float(&a)[1][n]) { Load(x + i, a[0]); }));
}

// What is dropped of rows whose elements' logical indices are consecutive: where a row's begin.
struct RowDropout {
  DropoutRule rule;
  int64_t first;
  StridedIndex<1> rows;

  // Of one row.
  struct Draws {
    DropoutRule rule;
    int64_t first;

    // Drops elements from the i-th on, which are kept as T.
    template <typename T, int n>
    SLUICE_INLINE void Drop(int64_t i, float (&x)[n]) const {
      DropElements(rule, first + i, x);
      for (float& e : x) e = Rounded<T>(e);
    }
  };
  SLUICE_INLINE Draws OfRow(int64_t r) const { return {rule, first + OffsetOf(rows, r, 0)}; }
};
// Nothing is dropped.
struct NoDropout {
  SLUICE_INLINE NoDropout OfRow(int64_t) const { return {}; }
  template <typename T, int n>
  SLUICE_INLINE void Drop(int64_t, float (&)[n]) const {}
};

// Of a + dropout(b). A block that drops reads the sum again, which costs less than to draw again:
// each thread what it has stored itself for its own elements.
template <typename T, typename Result, typename Dropout, typename Row>
__global__ void __launch_bounds__(kRowThreads)
    AddLayerNormRows(Rows rows, const float* a, const T* b, float* sum, Dropout dropout,
                     NormOperands<Result> norm) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows.count) return;
  a += r * rows.length, b += r * rows.length, sum += r * rows.length;
  constexpr int kOf = kWidth<T, typename Result::Narrowest>;
  const auto draws = dropout.OfRow(r);
  const auto added = ValuesOf<kOf, 1>(row, rows, [=]<int n>(int64_t i, float(&term)[1][n]) {
    float other[n];
    Load(a + i, term[0]);
    Load(b + i, other);
    draws.template Drop<T>(i, other);
    for (int e = 0; e < n; ++e) term[0][e] = term[0][e] + other[e];
  });
  added.ForEach([=]<int n>(int64_t i, const float(&term)[1][n]) { Store(term[0], sum + i); });
  if constexpr (Row::kHolds || std::is_same_v<Dropout, NoDropout>) {
    NormalizeRow(row, rows, r, norm, added);
  } else {
    NormalizeRow(row, rows, r, norm,
                 ValuesOf<kOf, 1>(row, rows, [=]<int n>(int64_t i, float(&term)[1][n]) {
                   Load(sum + i, term[0]);
                 }));
  }
}

// What the gradient of layer norm reads.
template <typename D>
struct NormGradientOperands {
  const D* dy;
  const float *x, *gamma, *mean, *rstd;
};

// Of row r: use(i, dx) has the elements from i on.
template <int width, typename Row, typename D, typename Use>
SLUICE_INLINE void NormGradientOfRow(const Row& row, const Rows& rows, int64_t r,
                                     const NormGradientOperands<D>& norm, const Use& use) {
  const D* const dy = norm.dy + r * rows.length;
  const float *const x = norm.x + r * rows.length, *const gamma = norm.gamma;
  const float center = norm.mean[r], scale = norm.rstd[r];
  const float count = static_cast<float>(rows.length);
  // What the slopes are before the row's means are taken off, and where x lies in the row's
  // distribution.
  enum { kSlope, kNormal };
  const auto of = ValuesOf<width, 2>(row, rows, [=]<int n>(int64_t i, float(&made)[2][n]) {
    float factor[n];
    Load(dy + i, made[kSlope]);
    Load(x + i, made[kNormal]);
    Load(gamma + i, factor);
    for (int e = 0; e < n; ++e) {
      made[kSlope][e] = made[kSlope][e] * factor[e];
      made[kNormal][e] = (made[kNormal][e] - center) * scale;
    }
  });
  const float sum = of.Sum([]<int n>(const float(&made)[2][n], float(&term)[n]) {
    for (int e = 0; e < n; ++e) term[e] = made[kSlope][e];
  });
  const float dot = of.Sum([]<int n>(const float(&made)[2][n], float(&term)[n]) {
    for (int e = 0; e < n; ++e) term[e] = made[kSlope][e] * made[kNormal][e];
  });
  const float mean_slope = sum / count, mean_dot = dot / count;
  of.ForEach([&]<int n>(int64_t i, const float(&made)[2][n]) {
    float dx[n];
    for (int e = 0; e < n; ++e) {
      dx[e] = scale * (made[kSlope][e] - mean_slope - made[kNormal][e] * mean_dot);
    }
    use(i, dx);
  });
}

template <typename Row>
__global__ void __launch_bounds__(kRowThreads)
    LayerNormGradientRows(Rows rows, NormGradientOperands<float> norm, float* dx) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows.count) return;
  dx += r * rows.length;
  NormGradientOfRow<kWidth<>>(row, rows, r, norm,
                              [=](int64_t i, const auto& a) { Store(a, dx + i); });
}

// And in bf16.
template <typename Row>
__global__ void __launch_bounds__(kRowThreads)
    LayerNormGradientCastRows(Rows rows, NormGradientOperands<float> norm, float* dx,
                              uint16_t* low) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows.count) return;
  dx += r * rows.length, low += r * rows.length;
  NormGradientOfRow<kWidth<uint16_t>>(row, rows, r, norm, [=](int64_t i, const auto& a) {
    Store(a, dx + i);
    Store(a, low + i);
  });
}

template <typename D, typename Row>
__global__ void __launch_bounds__(kRowThreads)
    LayerNormGradientAddRows(Rows rows, NormGradientOperands<D> norm, const float* other,
                             float* dx) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows.count) return;
  other += r * rows.length, dx += r * rows.length;
  NormGradientOfRow<kWidth<D>>(row, rows, r, norm, [=]<int n>(int64_t i, const float(&a)[n]) {
    float sum[n];
    Load(other + i, sum);
    for (int e = 0; e < n; ++e) sum[e] = sum[e] + a[e];
    Store(sum, dx + i);
  });
}

// And the sum as a T, and what is dropped of that.
template <typename D, typename T, typename Dropout, typename Row>
__global__ void __launch_bounds__(kRowThreads)
    LayerNormGradientAddLowRows(Rows rows, NormGradientOperands<D> norm, const float* other,
                                float* dx, Dropout dropout, T* low) {
  const Row row;
  const int64_t r = row.index();
  if (r >= rows.count) return;
  other += r * rows.length, dx += r * rows.length, low += r * rows.length;
  const auto draws = dropout.OfRow(r);
  NormGradientOfRow<kWidth<D, T>>(row, rows, r, norm, [=]<int n>(int64_t i, const float(&a)[n]) {
    float sum[n];
    Load(other + i, sum);
    for (int e = 0; e < n; ++e) sum[e] = sum[e] + a[e];
    Store(sum, dx + i);
    for (float& e : sum) e = Rounded<T>(e);
    draws.template Drop<T>(i, sum);
    Store(sum, low + i);
  });
}

// What else is made of a column where its parameters' gradients are: the norm, again.
struct NormAgain {
  const float *gamma, *beta;
  uint16_t* y;

  struct OfColumn {
    float gamma, beta;
    uint16_t* y;
    SLUICE_INLINE void Keep(int64_t i, float normal) const {
      const float made[1] = {fmaf(normal, gamma, beta)};
      Store(made, y + i);
    }
  };
  SLUICE_INLINE OfColumn At(const ColumnBlock& block) const {
    return block.valid ? OfColumn{gamma[block.column], beta[block.column], y} : OfColumn{};
  }
};
struct NothingAgain {
  SLUICE_INLINE NothingAgain At(const ColumnBlock&) const { return {}; }
  SLUICE_INLINE void Keep(int64_t, float) const {}
};

// Sums of parts of the rows, [parts, 2, width].
template <typename D, typename Again>
__global__ void __launch_bounds__(kColumnThreads)
    ParameterGradientSums(const D* dy, const float* x, const float* mean, const float* rstd,
                          Again again, float* sums, int64_t rows, int64_t rows_of_part,
                          int64_t width) {
  const ColumnBlock block(width);
  const auto of_column = again.At(block);
  const int64_t begin = block.part * rows_of_part;
  const int64_t end = begin + rows_of_part < rows ? begin + rows_of_part : rows;
  float total[2];
  struct Read {
    D dy;
    float x, mean, rstd;
  };
  block.FoldRows<SumFold, 8>(
      begin, end,
      [&](int64_t r) {
        const int64_t i = r * width + block.column;
        return Read{dy[i], x[i], mean[r], rstd[r]};
      },
      [&](int64_t r, const Read& read, float(&sum)[2]) {
        const float slope = Widen(read.dy), normal = (read.x - read.mean) * read.rstd;
        sum[0] = fmaf(slope, normal, sum[0]);
        sum[1] = sum[1] + slope;
        of_column.Keep(r * width + block.column, normal);
      },
      total);
  if (WarpOfBlock() != 0 || !block.valid) return;
  float* const to = sums + block.part * 2 * width + block.column;
  to[0] = total[0];
  to[width] = total[1];
}

__global__ void __launch_bounds__(256)
    AddParameterGradients(const float* sums, int64_t parts, float* dgamma, float* dbeta,
                          int64_t width) {
  const int64_t i = ThreadIndex();  // of dgamma and then dbeta
  if (i >= 2 * width) return;
  float* const to = i < width ? dgamma + i : dbeta + (i - width);
  *to = PlusTerms(0.0f, sums, i, parts * 2 * width, 2 * width);
}

// The dropout of a tensor by rows, at each firing. Rows are whole: what a row begins with is found
// by the other dimensions.
class PlannedDropout {
 public:
  PlannedDropout(const Shard& shard, double rate, int64_t key) : rate_(rate), key_(key) {
    const Shape logical = shard.logical.Strides();
    Shape extent, strides;
    for (int d = 0; d + 1 < shard.local.rank(); ++d) {
      extent.Append(shard.local[d]), strides.Append(logical[d]);
      first_ += shard.offset[d] * logical[d];
      per_micro_ += shard.stride_per_micro[d] * logical[d];
    }
    if (extent.rank() == 0) extent.Append(1), strides.Append(0);
    rows_ = IndexOf<1>(StridedExtent(extent, {strides}));
  }
  RowDropout At(const KernelContext& context) const {
    return {{DrawOf(context, key_), DropoutThreshold(rate_), static_cast<float>(1 / (1 - rate_))},
            first_ + context.micro * per_micro_,
            rows_};
  }

 private:
  double rate_;
  int64_t key_, first_ = 0, per_micro_ = 0;
  StridedIndex<1> rows_;
};

// Of a kernel that drops nothing.
struct PlannedNoDropout {
  NoDropout At(const KernelContext&) const { return {}; }
};

// Rows in packs of the narrowest of these types.
template <typename A, typename B = float>
using Narrowest = std::conditional_t<sizeof(A) <= sizeof(B), A, B>;

// result(at): where the norm's goes.
template <typename T, typename Planned, typename ResultAt>
PreparedKernel PrepareNormOfSum(const KernelSpec& spec, double epsilon, const Planned& dropout,
                                const ResultAt& result) {
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  const float rest = static_cast<float>(epsilon);
  return MakeKernel([=](const KernelContext& context, const Operands& at) {
    using Dropout = decltype(dropout.At(context));
    using Result = decltype(result(at));
    const float* const a = at.at(0);
    const T* const b = at.at<T>(1);
    float* const sum = at.at(7);
    const NormOperands<Result> norm = {at.at(2), at.at(3), rest, result(at), at.at(5), at.at(6)};
    Rows of = RowsOf<Narrowest<T, typename Result::Narrowest>>(rows, width, a, b, sum, norm.gamma,
                                                               norm.beta, norm.result.y);
    if constexpr (std::is_same_v<Result, NormResultAndCast>) {
      of.in_packs &= PackAligned(norm.result.low);
    }
    return LaunchOnValues(context, of, AddLayerNormRows<T, Result, Dropout, HeldRow>,
                          AddLayerNormRows<T, Result, Dropout, ReadRow>, a, b, sum,
                          dropout.At(context), norm);
  });
}

// The first five inputs.
template <typename D>
NormGradientOperands<D> NormGradientAt(const Operands& at) {
  return {at.at<D>(0), at.at(1), at.at(2), at.at(3), at.at(4)};
}

template <typename D, typename T, typename Planned>
PreparedKernel PrepareLowOfSum(const KernelSpec& spec, const Planned& dropout) {
  const Shard& dx = spec.outputs[0];
  const int64_t rows = NumRows(dx.local), width = RowLength(dx.local);
  return MakeKernel([=](const KernelContext& context, const Operands& at) {
    using Dropout = decltype(dropout.At(context));
    const NormGradientOperands<D> norm = NormGradientAt<D>(at);
    const float* const other = at.at(5);
    float* const sum = at.at(6);
    T* const low = at.at<T>(7);
    return LaunchOnValues(
        context, RowsOf<Narrowest<D, T>>(rows, width, norm.dy, norm.x, norm.gamma, other, sum, low),
        LayerNormGradientAddLowRows<D, T, Dropout, HeldRow>,
        LayerNormGradientAddLowRows<D, T, Dropout, ReadRow>, norm, other, sum, dropout.At(context),
        low);
  });
}

// All operands are f32 but the first, and, if there is one, that behind the sum.
absl::Status RequireTypesOfGradient(const KernelSpec& spec) {
  std::vector<DType> types(6 + spec.outputs.size(), DType::kF32);
  types[0] = spec.inputs[0].dtype;
  if (spec.outputs.size() == 2) types.back() = spec.outputs[1].dtype;
  return RequireTypes(spec, types);
}

// A part of the rows for each sum that the op's bound has room for. Where that is one for each
// group of rows, as up to 4,096 of them, the bits are the CPU's. `again(at)`: the NormAgain, or
// NothingAgain.
template <typename D, typename AgainAt>
PreparedKernel MakeParameterGradient(const KernelSpec& spec, const AgainAt& again) {
  constexpr int64_t kMostParts = 64;
  const int inputs = static_cast<int>(spec.inputs.size());
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  const int64_t groups = std::max<int64_t>(1, (rows + kGroupRows - 1) / kGroupRows);
  const int64_t rows_of_part = (groups + kMostParts - 1) / kMostParts * kGroupRows;
  const int64_t parts = std::max<int64_t>(1, (rows + rows_of_part - 1) / rows_of_part);
  return MakeKernel(
      [=](const KernelContext& context, const Operands& at) -> absl::Status {
        if (width == 0) return absl::OkStatus();
        float* const sums = at.scratch<float>();
        RETURN_IF_ERROR(Launch(context, ParameterGradientSums<D, decltype(again(at))>,
                               ColumnBlock::GridOf(width, parts, rows_of_part, 2), at.at<D>(0),
                               at.at(1), at.at(2), at.at(3), again(at), sums, rows, rows_of_part,
                               width));
        return Launch(context, AddParameterGradients, GridOfFewSums(2 * width), sums, parts,
                      at.at(inputs), at.at(inputs + 1), width);
      },
      parts * 2 * width * 4);
}

}  // namespace

PreparedKernel PrepareLayerNorm(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  ASSIGN_OR_RETURN(const NormAttributes attributes,
                   ParseAttributes<NormAttributes>(spec.attributes));
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  const float epsilon = static_cast<float>(attributes.epsilon);
  return MakeKernel([rows, width, epsilon](const KernelContext& context, const Operands& at) {
    const float* const x = at.at(0);
    const NormOperands<NormResult<float>> norm = {at.at(1),   at.at(2), epsilon,
                                                  {at.at(3)}, at.at(4), at.at(5)};
    return LaunchOnValues(context,
                          RowsOf<float>(rows, width, x, norm.gamma, norm.beta, norm.result.y),
                          LayerNormRows<HeldRow>, LayerNormRows<ReadRow>, x, norm);
  });
}

// y is bf16, or made in bf16 too, only where b is.
PreparedKernel PrepareAddLayerNorm(const KernelSpec& spec) {
  const DType of_y = spec.outputs[0].dtype;
  const bool casts = spec.outputs.size() == 5;
  const DType of_b = of_y == DType::kF32 && !casts ? spec.inputs[1].dtype : DType::kBF16;
  std::vector<DType> types(8, DType::kF32);
  types[1] = of_b, types[4] = of_y;
  if (casts) types.push_back(DType::kBF16);
  RETURN_IF_ERROR(RequireTypes(spec, types));
  ASSIGN_OR_RETURN(const AddNormAttributes attributes,
                   ParseAttributes<AddNormAttributes>(spec.attributes));
  const auto prepare = [&]<typename T>(T, const auto& result) {
    return attributes.rate > 0
               ? PrepareNormOfSum<T>(
                     spec, attributes.epsilon,
                     PlannedDropout(spec.inputs[1], attributes.rate, attributes.key), result)
               : PrepareNormOfSum<T>(spec, attributes.epsilon, PlannedNoDropout(), result);
  };
  if (casts) {
    return prepare(uint16_t{0}, [](const Operands& at) {
      return NormResultAndCast{at.at(4), at.at<uint16_t>(8)};
    });
  }
  if (of_y == DType::kBF16) {
    return prepare(uint16_t{0},
                   [](const Operands& at) { return NormResult<uint16_t>{at.at<uint16_t>(4)}; });
  }
  return OfFloat(spec, of_b, [&]<typename T>(T b) {
    return prepare(b, [](const Operands& at) { return NormResult<float>{at.at(4)}; });
  });
}

PreparedKernel PrepareLayerNormGradient(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec));
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  return MakeKernel([rows, width](const KernelContext& context, const Operands& at) {
    const NormGradientOperands<float> norm = NormGradientAt<float>(at);
    float* const dx = at.at(5);
    return LaunchOnValues(context, RowsOf<float>(rows, width, norm.dy, norm.x, norm.gamma, dx),
                          LayerNormGradientRows<HeldRow>, LayerNormGradientRows<ReadRow>, norm, dx);
  });
}

PreparedKernel PrepareLayerNormGradientCast(const KernelSpec& spec) {
  std::vector<DType> types(7, DType::kF32);
  types[6] = DType::kBF16;
  RETURN_IF_ERROR(RequireTypes(spec, types));
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  return MakeKernel([rows, width](const KernelContext& context, const Operands& at) {
    const NormGradientOperands<float> norm = NormGradientAt<float>(at);
    float* const dx = at.at(5);
    auto* const low = at.at<uint16_t>(6);
    return LaunchOnValues(
        context, RowsOf<uint16_t>(rows, width, norm.dy, norm.x, norm.gamma, dx, low),
        LayerNormGradientCastRows<HeldRow>, LayerNormGradientCastRows<ReadRow>, norm, dx, low);
  });
}

PreparedKernel PrepareLayerNormGradientAdd(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireTypesOfGradient(spec));
  const int64_t rows = NumRows(spec.inputs[0].local), width = RowLength(spec.inputs[0].local);
  return OfFloat(spec, spec.inputs[0].dtype, [&]<typename D>(D) {
    return MakeKernel([rows, width](const KernelContext& context, const Operands& at) {
      const NormGradientOperands<D> norm = NormGradientAt<D>(at);
      const float* const other = at.at(5);
      float* const dx = at.at(6);
      return LaunchOnValues(context, RowsOf<D>(rows, width, norm.dy, norm.x, norm.gamma, other, dx),
                            LayerNormGradientAddRows<D, HeldRow>,
                            LayerNormGradientAddRows<D, ReadRow>, norm, other, dx);
    });
  });
}

PreparedKernel PrepareLayerNormGradientAddCast(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireTypesOfGradient(spec));
  return OfFloat(spec, spec.inputs[0].dtype, [&]<typename D>(D) {
    return PrepareLowOfSum<D, uint16_t>(spec, PlannedNoDropout());
  });
}

// Of both ops that drop: what is made says whether the sum is cast.
PreparedKernel PrepareLayerNormGradientAddDropout(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireTypesOfGradient(spec));
  ASSIGN_OR_RETURN(const AddNormAttributes attributes,
                   ParseAttributes<AddNormAttributes>(spec.attributes));
  const PlannedDropout dropout(spec.outputs[0], attributes.rate, attributes.key);
  return OfFloat(spec, spec.inputs[0].dtype, [&]<typename D>(D) {
    return OfFloat(spec, spec.outputs[1].dtype,
                   [&]<typename T>(T) { return PrepareLowOfSum<D, T>(spec, dropout); });
  });
}

PreparedKernel PrepareLayerNormParameterGradient(const KernelSpec& spec) {
  const bool has_value = spec.outputs.size() == 3;
  std::vector<DType> types(spec.inputs.size() + spec.outputs.size(), DType::kF32);
  types[0] = has_value ? DType::kBF16 : spec.inputs[0].dtype;
  if (has_value) types.back() = DType::kBF16;
  RETURN_IF_ERROR(RequireTypes(spec, types));
  if (has_value) {
    return MakeParameterGradient<uint16_t>(spec, [](const Operands& at) {
      return NormAgain{at.at(4), at.at(5), at.at<uint16_t>(8)};
    });
  }
  return OfFloat(spec, types[0], [&]<typename D>(D) {
    return MakeParameterGradient<D>(spec, [](const Operands&) { return NothingAgain(); });
  });
}

}  // namespace sluice::cuda
