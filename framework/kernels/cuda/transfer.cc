// Copies between memory spaces: host and device, device and device. A region is cut into blocks of
// rows, each a call of the runtime, whose engines copy beside kernels. A kernel that read the other
// space itself would need peer access, and would take processors from those that compute.
//
// Worked example: columns [4, 8) of f32[6, 8] into f32[6, 4] are one block: 6 rows of 16 bytes, 32
// bytes apart where they come from and 16 where they go.
#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/launch.h"

namespace sluice::cuda {
namespace {

// Rows of `width` bytes.
struct Block {
  int source = 0;
  int64_t from = 0, to = 0, width = 0, rows = 1, from_pitch = 0, to_pitch = 0;
  int32_t micro = 0;  // 0: of every micro-batch, else it and one
};

struct Dimension {
  int64_t extent, from, to;  // strides in bytes
};

// Outermost first; neighbours that step as one are one, and the last is of bytes that lie together.
std::vector<Dimension> Collapse(const FoldRegion& region, int64_t size) {
  std::vector<Dimension> dimensions;
  for (int d = 0; d < region.extent.rank(); ++d) {
    if (region.extent[d] == 1) continue;
    dimensions.push_back(
        {region.extent[d], region.source_strides[0][d] * size, region.strides[d] * size});
  }
  dimensions.push_back({size, 1, 1});
  for (size_t d = dimensions.size() - 1; d > 0; --d) {
    const Dimension inner = dimensions[d];
    Dimension& outer = dimensions[d - 1];
    if (outer.from != inner.from * inner.extent || outer.to != inner.to * inner.extent) continue;
    outer = {outer.extent * inner.extent, inner.from, inner.to};
    dimensions.erase(dimensions.begin() + static_cast<int64_t>(d));
  }
  return dimensions;
}

void AddBlocks(const std::vector<Dimension>& dimensions, size_t d, Block at,
               std::vector<Block>* blocks) {
  if (d + 2 < dimensions.size()) {
    for (int64_t i = 0; i < dimensions[d].extent; ++i) {
      AddBlocks(dimensions, d + 1, at, blocks);
      at.from += dimensions[d].from;
      at.to += dimensions[d].to;
    }
    return;
  }
  at.width = at.from_pitch = at.to_pitch = dimensions.back().extent;
  if (dimensions.size() > 1) {
    const Dimension& rows = dimensions[dimensions.size() - 2];
    at.rows = rows.extent;
    at.from_pitch = rows.from;
    at.to_pitch = rows.to;
  }
  blocks->push_back(at);
}

absl::Status AddRegion(const KernelSpec& spec, const FoldRegion& region,
                       std::vector<Block>* blocks) {
  if (region.sources.size() != 1 || region.sources[0] < 0 ||
      region.sources[0] >= static_cast<int>(spec.inputs.size())) {
    return absl::InternalError(absl::StrCat("copy: expected regions of one of ", spec.inputs.size(),
                                            " sources, got one of ", region.sources.size()));
  }
  if (region.extent.NumElements() == 0) return absl::OkStatus();
  const int64_t size = SizeOf(spec.outputs[0].dtype);
  Block block;
  block.source = region.sources[0];
  block.from = region.source_offsets[0] * size;
  block.to = region.offset * size;
  block.micro = region.micro;
  AddBlocks(Collapse(region, size), 0, block, blocks);
  return absl::OkStatus();
}

absl::Status CopyBlock(const Block& block, const KernelContext& context, const Operands& at,
                       int output) {
  std::byte* const to = at.bytes(output) + block.to;
  const std::byte* const from = at.bytes(block.source) + block.from;
  const cudaStream_t stream = StreamOf(context).handle();
  const auto width = static_cast<size_t>(block.width), rows = static_cast<size_t>(block.rows);
  if (rows == 1) {
    return FromCuda(cudaMemcpyAsync(to, from, width, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
  }
  return FromCuda(cudaMemcpy2DAsync(to, static_cast<size_t>(block.to_pitch), from,
                                    static_cast<size_t>(block.from_pitch), width, rows,
                                    cudaMemcpyDefault, stream),
                  "cudaMemcpy2DAsync");
}

}  // namespace

PreparedKernel PrepareTransfer(const KernelSpec& spec) {
  for (const Shard& input : spec.inputs) {
    if (input.dtype != spec.outputs[0].dtype) return NoKernel(spec);
  }
  std::vector<Block> blocks;
  for (const FoldRegion& region : spec.regions) {
    RETURN_IF_ERROR(AddRegion(spec, region, &blocks));
  }
  if (spec.regions.empty() && spec.outputs[0].NumBytes() > 0) {
    Block whole;
    whole.width = whole.from_pitch = whole.to_pitch = spec.outputs[0].NumBytes();
    blocks.push_back(whole);
  }
  const int output = static_cast<int>(spec.inputs.size());
  return MakeKernel([=](const KernelContext& context, const Operands& at) -> absl::Status {
    for (const Block& block : blocks) {
      if (block.micro != 0 && block.micro != context.micro + 1) continue;
      RETURN_IF_ERROR(CopyBlock(block, context, at, output));
    }
    return absl::OkStatus();
  });
}

}  // namespace sluice::cuda
