// Rows of a table by id. A shard of a table split by rows gives zeros for the rows of other shards.
#include <type_traits>

#include "framework/kernels/cpu/all_kernels.h"
#include "framework/kernels/cpu/rows.h"

namespace sluice::cpu {

namespace {

void CopyRow(const float* from, int64_t width, float* to) {
  constexpr int64_t kLine = 16;
  int64_t e = 0;
  for (; e + kLine <= width; e += kLine) std::memcpy(to + e, from + e, kLine * sizeof(float));
  for (; e < width; ++e) to[e] = from[e];
}

// y[i] = the row of ids[i] of a table whose rows from `first` on are `held` here; zeros for others.
// With `whole` there are no others. Width: a number or a constant.
template <bool whole, typename Width>
void LookUp(const float* table, int64_t first, int64_t held, Width width, const int32_t* ids,
            int64_t n, float* y) {
  const int64_t ahead = RowsAhead(width);
  const auto is_held = [held](int64_t row) { return whole || (row >= 0 && row < held); };
  const auto copy = [&](int64_t i) {
    const int64_t row = ids[i] - first;
    if (is_held(row)) {
      CopyRow(table + row * width, width, y + i * width);
    } else {
      std::fill_n(y + i * width, width, 0.0f);
    }
  };
  int64_t i = 0;
  for (; i + ahead < n; ++i) {
    const int64_t next = ids[i + ahead] - first;
    if (is_held(next)) FetchRow(table + next * width, width);
    copy(i);
  }
  for (; i < n; ++i) copy(i);
}

using LookUpLoop = void (*)(const float* table, int64_t first, int64_t held, int64_t width,
                            const int32_t* ids, int64_t n, float* y);
// Rows of one element and of a line are worth loops of their own.
template <bool whole>
LookUpLoop LookUpOf(int64_t width) {
  if (width == 1) {
    return [](const float* table, int64_t first, int64_t held, int64_t, const int32_t* ids,
              int64_t n, float* y) {
      LookUp<whole>(table, first, held, std::integral_constant<int64_t, 1>(), ids, n, y);
    };
  }
  if (width == 16) {
    return [](const float* table, int64_t first, int64_t held, int64_t, const int32_t* ids,
              int64_t n, float* y) {
      LookUp<whole>(table, first, held, std::integral_constant<int64_t, 16>(), ids, n, y);
    };
  }
  return LookUp<whole, int64_t>;
}

// Adds rows in order of appearance. Split by columns, so that the order of a sum is one.
void ScatterAdd(const KernelContext& context, const int32_t* ids, const float* values, int64_t n,
                const TableRows& rows, float* table) {
  const int64_t grain = std::max<int64_t>(16, kCheapGrain / std::max<int64_t>(n, 1));
  const int64_t first = rows.BeginAt(context.micro), width = rows.width;
  const int64_t of_group = rows.IdsOfGroup(n);
  Parallel(context, width, grain, [&](int64_t begin, int64_t end) {
    const BinaryLoop<float> add = Vectors().f32.elementwise.add.both;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t row = ids[i] - first;
      if (row < 0 || row >= rows.held) continue;
      float* to = table + (i / of_group * rows.held + row) * width + begin;
      add(to, values + i * width + begin, to, end - begin);
    }
  });
}

}  // namespace

PreparedKernel PrepareEmbedding(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec, {1}));
  const TableRows rows(spec.inputs[0]);
  const int64_t n = spec.inputs[1].NumElements(), width = rows.width;
  const int64_t of_group = rows.IdsOfGroup(n);
  const LookUpLoop look_up =
      rows.held == rows.whole ? LookUpOf<true>(width) : LookUpOf<false>(width);
  return MakeKernel([=](const KernelContext& context, const Operands& at) -> absl::Status {
    const float* table = at.at(0);
    const int32_t* ids = at.at<int32_t>(1);
    float* y = at.at(2);
    RETURN_IF_ERROR(CheckIds("embedding", ids, n, rows.whole));
    if (width == 0) return absl::OkStatus();  // a shard without columns has no bytes either
    const int64_t first = rows.BeginAt(context.micro);
    ParallelRows(context, n, width, kCheapGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end;) {
        const int64_t group = i / of_group, until = std::min(end, (group + 1) * of_group);
        look_up(table + group * rows.held * width, first, rows.held, width, ids + i, until - i,
                y + i * width);
        i = until;
      }
    });
    return absl::OkStatus();
  });
}

PreparedKernel PrepareEmbeddingGradient(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec, {0}));
  const TableRows rows(spec.outputs[0]);
  const int64_t n = spec.inputs[0].NumElements();
  return MakeKernel([=](const KernelContext& context, const Operands& at) -> absl::Status {
    const int32_t* ids = at.at<int32_t>(0);
    float* table = at.at(2);
    RETURN_IF_ERROR(CheckIds("embedding_gradient", ids, n, rows.whole));
    Parallel(context, rows.held * rows.width, kCheapGrain, [&](int64_t begin, int64_t end) {
      Vectors().arithmetic.fill(0, table + begin, end - begin);
    });
    ScatterAdd(context, ids, at.at(1), n, rows, table);
    return absl::OkStatus();
  });
}

PreparedKernel PrepareAddSparse(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec, {1}));
  const TableRows rows(spec.inputs[0]);
  const int64_t n = spec.inputs[1].NumElements(), elements = spec.inputs[0].NumElements();
  return MakeKernel([=](const KernelContext& context, const Operands& at) -> absl::Status {
    const float* dense = at.at(0);
    const int32_t* ids = at.at<int32_t>(1);
    float* y = at.at(3);
    RETURN_IF_ERROR(CheckIds("add_sparse", ids, n, rows.whole));
    if (y != dense) {
      Parallel(context, elements, kCheapGrain, [&](int64_t begin, int64_t end) {
        Vectors().arithmetic.copy(dense + begin, y + begin, end - begin);
      });
    }
    ScatterAdd(context, ids, at.at(2), n, rows, y);
    return absl::OkStatus();
  });
}

// table, whose shard says which rows are squared here, sorted ids, values.
PreparedKernel PrepareSumSquaresSparse(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec, {1}));
  const TableRows rows(spec.inputs[0]);
  const int64_t of_group = rows.IdsOfGroup(spec.inputs[1].NumElements() / 2);
  return MakeKernel(
      [=](const KernelContext& context, const Operands& at) -> absl::Status {
        const uint64_t* ids = at.at<uint64_t>(1);
        RETURN_IF_ERROR(
            CheckSortedIds(context, "sum_squares_sparse", ids, rows.groups, of_group, rows.whole));
        const int64_t first = rows.BeginAt(context.micro);
        double sum = 0;
        for (int64_t g = 0; g < rows.groups; ++g) {
          const DistinctRows distinct(context, ids + g * of_group,
                                      at.at(2) + g * of_group * rows.width, of_group, rows.width,
                                      first, first + rows.held, at.scratch<std::byte>());
          sum += distinct.SumOfSquares();
        }
        *at.at(3) = static_cast<float>(sum);
        return absl::OkStatus();
      },
      DistinctRows::Scratch(of_group, rows.width));
}

}  // namespace sluice::cpu
