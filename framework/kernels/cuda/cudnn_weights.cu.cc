#include "framework/kernels/cuda/cudnn_weights.h"

#include <cuda_runtime.h>

#include <algorithm>

#include "framework/kernels/cuda/launch.h"

namespace sluice::cuda {
namespace {

// The rows of a tile are read and the columns written, both as runs of memory; a column more keeps
// the columns of a tile in banks of their own.
constexpr int kTile = 32, kTileRows = 8;  // rows that a block's threads take at a time
constexpr int64_t kMostBlocks = 4096;

__device__ float Converted(uint16_t bf16, float*) {
  const uint32_t bits = static_cast<uint32_t>(bf16) << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
template <typename T>
__device__ T Converted(T value, T*) {
  return value;
}

template <typename From, typename To>
__global__ void __launch_bounds__(kTile* kTileRows)
    TurnKernel(int64_t rows, int64_t columns, const From* from, To* to) {
  __shared__ From tile[kTile][kTile + 1];
  const int along = static_cast<int>(threadIdx.x) % kTile;
  const int first = static_cast<int>(threadIdx.x) / kTile;
  const int64_t across = (columns + kTile - 1) / kTile;
  const int64_t tiles = across * ((rows + kTile - 1) / kTile);
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const int64_t row = t / across * kTile, column = t % across * kTile;
    for (int r = first; r < kTile; r += kTileRows) {
      if (row + r < rows && column + along < columns) {
        tile[r][along] = from[(row + r) * columns + column + along];
      }
    }
    __syncthreads();
    for (int c = first; c < kTile; c += kTileRows) {
      if (column + c < columns && row + along < rows) {
        to[(column + c) * rows + row + along] =
            Converted(tile[along][c], static_cast<To*>(nullptr));
      }
    }
    __syncthreads();
  }
}

template <typename From, typename To>
absl::Status Turn(const KernelContext& context, int64_t rows, int64_t columns,
                  const std::byte* from, std::byte* to) {
  const int64_t tiles = ((rows + kTile - 1) / kTile) * ((columns + kTile - 1) / kTile);
  const Grid grid = {dim3(static_cast<unsigned>(std::min(tiles, kMostBlocks))),
                     dim3(kTile * kTileRows)};
  return Launch(context, TurnKernel<From, To>, grid, rows, columns,
                reinterpret_cast<const From*>(from), reinterpret_cast<To*>(to));
}

}  // namespace

absl::Status WeightsForCudnn(const KernelContext& context, int64_t depth, int64_t out, DType dtype,
                             const std::byte* weights, std::byte* turned) {
  const auto turn = dtype == DType::kBF16 ? Turn<uint16_t, uint16_t> : Turn<float, float>;
  return turn(context, depth, out, weights, turned);
}

absl::Status WeightsOfCudnn(const KernelContext& context, int64_t depth, int64_t out, DType dtype,
                            const std::byte* turned, std::byte* weights) {
  const auto turn = dtype == DType::kBF16 ? Turn<uint16_t, float> : Turn<float, float>;
  return turn(context, out, depth, turned, weights);
}

}  // namespace sluice::cuda
