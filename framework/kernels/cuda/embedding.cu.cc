// Rows of a table by id. A shard of a table split by rows gives zeros for the rows of other shards.
// All but the sum of squares have the bits of the CPU.
#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/sorted_ids.h"

namespace sluice::cuda {
namespace {

// A thread copies a piece of a row, of Piece's size; an id is told of once.
template <typename Piece>
__global__ void __launch_bounds__(256)
    CopyRows(const Piece* table, const int32_t* ids, Piece* y, HeldRows rows, int64_t n,
             int64_t pieces, DeviceErrors errors) {
  const int64_t unit = ThreadIndex();
  // A shard without columns looks at ids all the same.
  const int64_t of_id = pieces > 0 ? pieces : 1, i = unit / of_id, c = unit % of_id;
  if (i >= n) return;
  const int64_t id = ids[i], row = rows.RowOf(id, i);
  if (c == 0) rows.Check(id, i, errors);
  if (c < pieces) y[i * pieces + c] = row >= 0 ? table[row * pieces + c] : Piece{};
}

template <typename Piece>
absl::Status LaunchCopyRows(const KernelContext& context, const Operands& at, const HeldRows& rows,
                            int64_t n, int64_t pieces) {
  return Launch(context, CopyRows<Piece>, GridOf(n * std::max<int64_t>(pieces, 1)), at.at<Piece>(0),
                at.at<int32_t>(1), at.at<Piece>(2), rows, n, pieces, StreamOf(context).errors());
}

// Adds rows to those of the table, in order of appearance.
__global__ void __launch_bounds__(256)
    AddRows(SortedIds ids, const float* values, float* table, int64_t width) {
  const DistinctRow rows(ids, width);
  if (!rows.IsTaken()) return;
  float* const to = table + rows.row() * width + rows.column();
  const float sum = rows.Plus(rows.HasColumn() ? *to : 0, values);
  if (rows.HasColumn()) *to = sum;
}

// What the squares of so many warps' sums add up to: of ids and pieces of the columns, where an id
// that stood before has none.
constexpr int kSquareThreads = 256;
__global__ void __launch_bounds__(kSquareThreads)
    SquareRows(SortedIds ids, const float* values, double* sums, int64_t width) {
  double* const parts = SharedMemory<double>();
  const DistinctRow rows(ids, width);
  double squares = 0;
  if (rows.IsTaken()) {
    const double sum = rows.Sum(values);
    if (rows.HasColumn()) squares = sum * sum;
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    squares += __shfl_xor_sync(kAllLanes, squares, distance);
  }
  if (Lane() == 0) parts[WarpOfBlock()] = squares;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < WarpsOfBlock(); ++warp) squares += parts[warp];
  sums[blockIdx.x] = squares;
}

constexpr int kSumThreads = 1024;
__global__ void __launch_bounds__(kSumThreads) AddUp(const double* sums, int64_t n, float* y) {
  const double sum = SumOfBlock(PlusTerms(0.0, sums, threadIdx.x, n, kSumThreads));
  if (threadIdx.x == 0) *y = static_cast<float>(sum);
}

// Sorts n ids, so that all of them are looked at, and adds their rows to the table.
absl::Status ScatterAdd(const KernelContext& context, const TableRows& rows, const int32_t* ids,
                        const float* values, int64_t n, std::byte* scratch, float* table) {
  if (n == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const SortedIds sorted,
                   SortIds(context, HeldRows(rows, context.micro, n), ids, n, scratch));
  if (rows.width == 0) return absl::OkStatus();
  return Launch(context, AddRows, DistinctGrid(n, rows.width), sorted, values, table, rows.width);
}

}  // namespace

PreparedKernel PrepareEmbedding(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec, {1}));
  const TableRows rows(spec.inputs[0]);
  const int64_t n = spec.inputs[1].NumElements();
  return MakeKernel([=](const KernelContext& context, const Operands& at) -> absl::Status {
    if (n == 0) return absl::OkStatus();
    const HeldRows held(rows, context.micro, n);
    constexpr int kWidth = kPack<float>;
    return rows.width % kWidth == 0 && PackAligned(at.at(0), at.at(2))
               ? LaunchCopyRows<float4>(context, at, held, n, rows.width / kWidth)
               : LaunchCopyRows<float>(context, at, held, n, rows.width);
  });
}

PreparedKernel PrepareEmbeddingGradient(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec, {0}));
  const TableRows rows(spec.outputs[0]);
  const int64_t n = spec.inputs[0].NumElements(), bytes = spec.outputs[0].NumBytes();
  if (!CanSort(rows, n)) return NoKernel(spec);
  return MakeKernel(
      [=](const KernelContext& context, const Operands& at) -> absl::Status {
        if (bytes > 0) {
          RETURN_IF_ERROR(FromCuda(cudaMemsetAsync(at.bytes(2), 0, static_cast<size_t>(bytes),
                                                   StreamOf(context).handle()),
                                   "cudaMemsetAsync"));
        }
        return ScatterAdd(context, rows, at.at<int32_t>(0), at.at(1), n, at.scratch<std::byte>(),
                          at.at(2));
      },
      SortScratch(n));
}

PreparedKernel PrepareAddSparse(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec, {1}));
  const TableRows rows(spec.inputs[0]);
  const int64_t n = spec.inputs[1].NumElements(), bytes = spec.inputs[0].NumBytes();
  if (!CanSort(rows, n)) return NoKernel(spec);
  return MakeKernel(
      [=](const KernelContext& context, const Operands& at) -> absl::Status {
        if (at.at(3) != at.at(0) && bytes > 0) {
          RETURN_IF_ERROR(
              FromCuda(cudaMemcpyAsync(at.at(3), at.at(0), static_cast<size_t>(bytes),
                                       cudaMemcpyDeviceToDevice, StreamOf(context).handle()),
                       "cudaMemcpyAsync"));
        }
        return ScatterAdd(context, rows, at.at<int32_t>(1), at.at(2), n, at.scratch<std::byte>(),
                          at.at(3));
      },
      SortScratch(n));
}

// table, whose shard says which rows are squared here, sorted ids, values.
PreparedKernel PrepareSumSquaresSparse(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireF32(spec, {1}));
  const TableRows rows(spec.inputs[0]);
  const int64_t n = spec.inputs[1].NumElements() / 2, width = rows.width;
  if (!CanSort(rows, n)) return NoKernel(spec);
  Grid grid = DistinctGrid(std::max<int64_t>(n, 1), std::max<int64_t>(width, 1));
  grid.shared_bytes = kSquareThreads / kWarp * sizeof(double);
  const int64_t terms = n * width == 0 ? 0 : static_cast<int64_t>(grid.blocks.x);
  return MakeKernel(
      [=](const KernelContext& context, const Operands& at) -> absl::Status {
        double* const sums =
            reinterpret_cast<double*>(at.scratch<std::byte>() + AlignedBytes(n * 8));
        if (n > 0) {
          ASSIGN_OR_RETURN(const SortedIds sorted,
                           TakeSorted(context, HeldRows(rows, context.micro, n), at.at<uint64_t>(1),
                                      n, at.scratch<std::byte>()));
          if (terms > 0) {
            RETURN_IF_ERROR(Launch(context, SquareRows, grid, sorted, at.at(2), sums, width));
          }
        }
        return Launch(context, AddUp,
                      Grid{dim3(1), dim3(kSumThreads), kSumThreads * sizeof(double)}, sums, terms,
                      at.at(3));
      },
      AlignedBytes(n * 8) + terms * 8);
}

}  // namespace sluice::cuda
