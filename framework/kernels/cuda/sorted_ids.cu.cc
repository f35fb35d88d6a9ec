#include "framework/kernels/cuda/sorted_ids.h"

#include "framework/base/status.h"
#include "framework/kernels/cuda/all_kernels.h"

namespace sluice::cuda {
namespace {

// Ids that a block sorts by itself.
constexpr int kTile = 256;

// No two keys are equal, so that a key's place is the number of those below it.
__global__ void __launch_bounds__(kTile)
    SortTiles(HeldRows rows, const int32_t* ids, int64_t n, uint64_t* keys, DeviceErrors errors) {
  uint64_t* const tile = SharedMemory<uint64_t>();
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kTile, i = begin + threadIdx.x;
  const int held = n - begin < kTile ? static_cast<int>(n - begin) : kTile;
  uint64_t key = 0;
  if (i < n) {
    const int64_t id = ids[i], row = rows.RowOf(id, i);
    rows.Check(id, i, errors);
    key = static_cast<uint64_t>(row < 0 ? kNoRow : row) << 32 | static_cast<uint64_t>(i);
    tile[threadIdx.x] = key;
  }
  __syncthreads();
  if (i >= n) return;
  int below = 0;
  for (int other = 0; other < held; ++other) below += tile[other] < key ? 1 : 0;
  keys[begin + below] = key;
}

// Of the keys [begin, end), which ascend: how many are less than one that is not among them.
__device__ int64_t CountBelow(const uint64_t* keys, int64_t begin, int64_t end, uint64_t key) {
  int64_t low = begin, high = end;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (keys[middle] < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low - begin;
}

// Runs of keys that ascend become runs of twice their length. A thread finds the place of one key.
__global__ void __launch_bounds__(256)
    MergeRuns(const uint64_t* from, uint64_t* to, int64_t n, int64_t run) {
  const int64_t i = ThreadIndex();
  if (i >= n) return;
  const int64_t pair = i / (2 * run) * 2 * run;
  const int64_t middle = pair + run < n ? pair + run : n;
  const int64_t end = pair + 2 * run < n ? pair + 2 * run : n;
  const uint64_t key = from[i];
  to[i < middle ? i + CountBelow(from, middle, end, key)
                : i - (middle - pair) + CountBelow(from, pair, middle, key)] = key;
}

// Of each entry the key; places that no group has are told of as ids are.
__global__ void __launch_bounds__(256) TakeEntries(HeldRows rows, const uint64_t* entries,
                                                   int64_t n, uint64_t* keys, DeviceErrors errors) {
  const int64_t i = ThreadIndex();
  if (i >= n) return;
  const int64_t id = static_cast<int32_t>(entries[i] >> 32), row = rows.RowOf(id, i);
  const int64_t place = static_cast<int64_t>(entries[i] & 0xffffffff);
  rows.Check(id, place, errors);
  if (place >= rows.of_group) SetError(errors, DeviceErrorKind::kId, place, rows.of_group, i);
  const uint64_t held = row < 0 || place >= rows.of_group ? kNoRow : row;
  keys[i] = held << 32 | static_cast<uint64_t>(i / rows.of_group * rows.of_group + place);
}

// Leaves the keys of n > 0 ids in order in `to`; `other` is of as many.
absl::Status SortInto(const KernelContext& context, const HeldRows& rows, const int32_t* ids,
                      int64_t n, uint64_t* to, uint64_t* other) {
  for (int64_t run = kTile; run < n; run *= 2) std::swap(to, other);  // each merge swaps them back
  Grid tiles = GridOf(n, kTile);  // blocks of kTile threads where there are several
  tiles.shared_bytes = kTile * sizeof(uint64_t);
  RETURN_IF_ERROR(Launch(context, SortTiles, tiles, rows, ids, n, to, StreamOf(context).errors()));
  for (int64_t run = kTile; run < n; run *= 2) {
    RETURN_IF_ERROR(Launch(context, MergeRuns, GridOf(n), to, other, n, run));
    std::swap(to, other);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SortedIds> SortIds(const KernelContext& context, const HeldRows& rows,
                                  const int32_t* ids, int64_t n, std::byte* scratch) {
  uint64_t* const keys = reinterpret_cast<uint64_t*>(scratch);
  uint64_t* const other = reinterpret_cast<uint64_t*>(scratch + AlignedBytes(n * 8));
  RETURN_IF_ERROR(SortInto(context, rows, ids, n, keys, other));
  return SortedIds{keys, n};
}

absl::StatusOr<SortedIds> TakeSorted(const KernelContext& context, const HeldRows& rows,
                                     const uint64_t* entries, int64_t n, std::byte* scratch) {
  uint64_t* const keys = reinterpret_cast<uint64_t*>(scratch);
  RETURN_IF_ERROR(
      Launch(context, TakeEntries, GridOf(n), rows, entries, n, keys, StreamOf(context).errors()));
  return SortedIds{keys, n};
}

// ids; entries.
PreparedKernel PrepareSortIds(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireTypes(spec, {DType::kI32, DType::kI32}));
  const int64_t groups = NumRows(spec.inputs[0].local), n = RowLength(spec.inputs[0].local);
  return MakeKernel(
      [=](const KernelContext& context, const Operands& at) -> absl::Status {
        for (int64_t g = 0; g < groups && n > 0; ++g) {
          RETURN_IF_ERROR(SortInto(context, HeldRows::All(n), at.at<int32_t>(0) + g * n, n,
                                   at.at<uint64_t>(1) + g * n, at.scratch<uint64_t>()));
        }
        return absl::OkStatus();
      },
      AlignedBytes(n * 8));
}

}  // namespace sluice::cuda
