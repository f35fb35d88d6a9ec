// Rows of a table by id. A shard of a table split by rows gives zeros for the rows of other shards.
#include "absl/strings/str_cat.h"
#include "framework/kernels/cpu/all_kernels.h"
#include "framework/kernels/cpu/rows.h"

namespace sluice::cpu {

absl::Status CheckIds(const char* op, const int32_t* ids, int64_t n, int64_t limit) {
  for (int64_t i = 0; i < n; ++i) {
    if (ids[i] >= 0 && ids[i] < limit) continue;
    return absl::OutOfRangeError(
        absl::StrCat(op, ": expected ids in [0, ", limit, "), got ", ids[i], " in row ", i));
  }
  return absl::OkStatus();
}

namespace {

// Rows of a large table are in no cache: so many ids ahead they are asked for.
constexpr int64_t kAhead = 8;

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
  return MakeKernel([=](const KernelContext& context, const Operands& at) -> absl::Status {
    const float* table = at.at(0);
    const int32_t* ids = at.at<int32_t>(1);
    float* y = at.at(2);
    RETURN_IF_ERROR(CheckIds("embedding", ids, n, rows.whole));
    if (width == 0) return absl::OkStatus();  // a shard without columns has no bytes either
    const int64_t first = rows.BeginAt(context.micro);
    ParallelRows(context, n, width, kCheapGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = ids[i] - first;
        if (i + kAhead < end) {
          const int64_t next = ids[i + kAhead] - first;
          if (next >= 0 && next < rows.held) {
            __builtin_prefetch(table + ((i + kAhead) / of_group * rows.held + next) * width);
          }
        }
        if (row >= 0 && row < rows.held) {
          std::memcpy(y + i * width, table + (i / of_group * rows.held + row) * width,
                      width * sizeof(float));
        } else {
          std::memset(y + i * width, 0, width * sizeof(float));
        }
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

// table, whose shard says which rows are squared here, ids, values.
PreparedKernel PrepareSumSquaresSparse(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec, {1}));
  const TableRows rows(spec.inputs[0]);
  const int64_t n = spec.inputs[1].NumElements(), of_group = rows.IdsOfGroup(n);
  return MakeKernel(
      [=](const KernelContext& context, const Operands& at) -> absl::Status {
        const int32_t* ids = at.at<int32_t>(1);
        RETURN_IF_ERROR(CheckIds("sum_squares_sparse", ids, n, rows.whole));
        const int64_t first = rows.BeginAt(context.micro);
        double sum = 0;
        for (int64_t g = 0; g < rows.groups; ++g) {
          const DistinctRows distinct(ids + g * of_group, at.at(2) + g * of_group * rows.width,
                                      of_group, rows.width, first, first + rows.held,
                                      at.scratch<std::byte>());
          sum += distinct.Sum(context, [&](const float* row) {
            return Vectors().f32.reduction.sum_squares(row, rows.width);
          });
        }
        *at.at(3) = static_cast<float>(sum);
        return absl::OkStatus();
      },
      DistinctRows::Scratch(of_group, rows.width));
}

}  // namespace sluice::cpu
