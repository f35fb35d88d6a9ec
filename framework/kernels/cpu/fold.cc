// Boxing on one device: the output's regions are folds of slices of the inputs. And the sum over
// micro-batches.
#include <xmmintrin.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/kernels/cpu/all_kernels.h"
#include "framework/kernels/cpu/strided.h"
#include "framework/kernels/cpu/vector.h"
#include "framework/tensor/array.h"

namespace sluice::cpu {
namespace {

constexpr int64_t kBlock = 1024;  // elements folded at a time; temporaries stay in the first cache
// Bytes of an output from which on it is stored past the caches: with the shards of other devices
// it would not stay there.
constexpr int64_t kStreamFrom = int64_t{4} << 20;
constexpr int kMaxDepth = 24;  // of a fold's stack

// y = a op b, elements of a dtype. y may be a or b.
using CombineRow = void (*)(const std::byte* a, const std::byte* b, std::byte* y, int64_t n);

template <DType dtype, Reduction reduction>
void CombineElements(const std::byte* a, const std::byte* b, std::byte* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    StoreElement(dtype, y, i,
                 Reduce(reduction, LoadElement(dtype, a, i), LoadElement(dtype, b, i)));
  }
}

template <typename T, Reduction reduction>
void CombineFloats(const std::byte* a, const std::byte* b, std::byte* y, int64_t n) {
  const ElementwiseVector<T>& loops = Vectors().of<T>().elementwise;
  const BinaryLoop<T> loop = reduction == Reduction::kMax   ? loops.maximum
                             : reduction == Reduction::kMin ? loops.minimum
                                                            : loops.add.both;
  loop(reinterpret_cast<const T*>(a), reinterpret_cast<const T*>(b), reinterpret_cast<T*>(y), n);
}

template <Reduction reduction>
CombineRow CombineOfType(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return CombineFloats<float, reduction>;
    case DType::kF64:
      return CombineElements<DType::kF64, reduction>;
    case DType::kBF16:
      return CombineFloats<BFloat16, reduction>;
    case DType::kI32:
      return CombineElements<DType::kI32, reduction>;
    case DType::kU8:
      return CombineElements<DType::kU8, reduction>;
  }
  return nullptr;
}

CombineRow CombineOf(DType dtype, Reduction reduction) {
  switch (reduction) {
    case Reduction::kMax:
      return CombineOfType<Reduction::kMax>(dtype);
    case Reduction::kMin:
      return CombineOfType<Reduction::kMin>(dtype);
    case Reduction::kNone:
    case Reduction::kSum:
      break;
  }
  return CombineOfType<Reduction::kSum>(dtype);
}

// The same for f32 sums, stored past the caches.
void AddStreaming(const std::byte* a, const std::byte* b, std::byte* y, int64_t n) {
  Vectors().arithmetic.add_streaming(reinterpret_cast<const float*>(a),
                                     reinterpret_cast<const float*>(b), reinterpret_cast<float*>(y),
                                     n);
}

// How elements of the output are made. `last` stores the output.
struct Combine {
  CombineRow any, last;
  int64_t size = 0;
  bool streams = false;
};

Combine CombineTo(const Shard& y, Reduction reduction) {
  const CombineRow any = CombineOf(y.dtype, reduction);
  Combine combine = {any, any, SizeOf(y.dtype), y.NumBytes() >= kStreamFrom};
  if (combine.streams && any == CombineFloats<float, Reduction::kSum>) combine.last = AddStreaming;
  return combine;
}

void CopyRow(const Combine& combine, const std::byte* from, std::byte* to, int64_t bytes) {
  const uintptr_t ends = reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to);
  if (combine.streams && (ends | static_cast<uintptr_t>(bytes)) % 4 == 0) {
    Vectors().arithmetic.copy_streaming(reinterpret_cast<const float*>(from),
                                        reinterpret_cast<float*>(to), bytes / 4);
  } else {
    std::memmove(to, from, bytes);
  }
}

void CopyStrided(const std::byte* from, int64_t step, std::byte* to, int64_t to_step, int64_t n,
                 int64_t size) {
  if (step == 1 && to_step == 1) {
    std::memmove(to, from, n * size);
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    std::memcpy(to + i * to_step * size, from + i * step * size, size);
  }
}

// A region ready to run: sources in the order of the loop's operands, the output last.
struct Region {
  StridedLoop loop;
  std::vector<int> inputs;
  std::vector<int64_t> offsets;  // bytes; the output's last
  std::vector<int> fold;
  int micro = 0;
};

// How deep a fold's stack gets; -1 if it is not one whole expression.
int DepthOf(const std::vector<int>& fold, int sources) {
  int depth = 0, deepest = 0;
  for (int word : fold) {
    if (word >= sources || word < -1) return -1;
    depth += word < 0 ? -1 : 1;
    if (depth < 1) return -1;
    deepest = std::max(deepest, depth);
  }
  return depth == 1 ? deepest : -1;
}

absl::StatusOr<Region> RegionOf(const KernelSpec& spec, const FoldRegion& region) {
  const int sources = static_cast<int>(region.sources.size());
  const int depth = DepthOf(region.fold, sources);
  if (depth < 0 || depth > kMaxDepth || sources + 1 > StridedLoop::kMaxOperands) {
    return absl::InternalError(absl::StrCat("box: expected a fold of at most ", kMaxDepth,
                                            " pending values, got ", depth, " over ", sources,
                                            " sources"));
  }
  Region made;
  const int64_t size = SizeOf(spec.outputs[0].dtype);
  std::vector<Shape> strides = region.source_strides;
  strides.push_back(region.strides);
  made.loop = StridedLoop(region.extent, strides);
  for (int i = 0; i < sources; ++i) {
    if (region.sources[i] < 0 || region.sources[i] >= static_cast<int>(spec.inputs.size()) ||
        spec.inputs[region.sources[i]].dtype != spec.outputs[0].dtype) {
      return NoKernel(spec);
    }
    made.inputs.push_back(region.sources[i]);
    made.offsets.push_back(region.source_offsets[i] * size);
  }
  made.offsets.push_back(region.offset * size);
  made.fold = region.fold;
  made.micro = region.micro;
  return made;
}

// The fold of up to kBlock elements; sources[i] points at the first of them.
void FoldBlock(const Region& region, const Combine& combine, const std::byte* const* sources,
               std::byte* output, int64_t n) {
  const int64_t size = combine.size;
  const int count = static_cast<int>(region.inputs.size());
  const bool direct = region.loop.row_stride(count) == 1;
  alignas(64) std::byte slots[kMaxDepth][kBlock * 8];
  const std::byte* stack[kMaxDepth];
  int depth = 0;
  for (size_t w = 0; w < region.fold.size(); ++w) {
    const int word = region.fold[w];
    if (word < 0) {
      --depth;
      const bool last = w + 1 == region.fold.size() && direct;
      std::byte* to = last ? output : slots[depth - 1];
      (last ? combine.last : combine.any)(stack[depth - 1], stack[depth], to, n);
      stack[depth - 1] = to;
    } else if (region.loop.row_stride(word) == 1) {
      stack[depth++] = sources[word];
    } else {
      CopyStrided(sources[word], region.loop.row_stride(word), slots[depth], 1, n, size);
      stack[depth] = slots[depth];
      ++depth;
    }
  }
  if (stack[0] != output) {
    CopyStrided(stack[0], 1, output, region.loop.row_stride(count), n, size);
  }
}

void RunRegion(const KernelContext& context, const Region& region, const Combine& combine,
               const Operands& at, int output) {
  const int count = static_cast<int>(region.inputs.size());
  const int64_t size = combine.size;
  std::byte* to = at.bytes(output) + region.offsets[count];
  const bool rows = region.loop.row_stride(count) == 1;
  const auto after = [&] {
    if (combine.streams) _mm_sfence();
  };
  if (region.fold.size() == 1) {
    const int s = region.fold[0];
    const std::byte* from = at.bytes(region.inputs[s]) + region.offsets[s];
    const int64_t step = region.loop.row_stride(s);
    const auto row = [&](const int64_t* offsets, int64_t n) {
      if (step == 1 && rows) {
        CopyRow(combine, from + offsets[s] * size, to + offsets[count] * size, n * size);
      } else {
        CopyStrided(from + offsets[s] * size, step, to + offsets[count] * size,
                    region.loop.row_stride(count), n, size);
      }
    };
    region.loop.ForAll(context, kCheapGrain, row, after);
  } else {
    const auto row = [&](const int64_t* offsets, int64_t n) {
      const std::byte* sources[StridedLoop::kMaxOperands];
      for (int64_t begin = 0; begin < n; begin += kBlock) {
        for (int i = 0; i < count; ++i) {
          sources[i] = at.bytes(region.inputs[i]) + region.offsets[i] +
                       (offsets[i] + begin * region.loop.row_stride(i)) * size;
        }
        FoldBlock(region, combine, sources,
                  to + (offsets[count] + begin * region.loop.row_stride(count)) * size,
                  std::min(kBlock, n - begin));
      }
    };
    region.loop.ForAll(context, kCheapGrain, row, after);
  }
}

void FillIdentity(const KernelContext& context, DType dtype, double identity, std::byte* to,
                  int64_t n) {
  if (dtype == DType::kF32) {
    Parallel(context, n, kCheapGrain, [&](int64_t begin, int64_t end) {
      Vectors().arithmetic.fill(static_cast<float>(identity), reinterpret_cast<float*>(to) + begin,
                                end - begin);
    });
    return;
  }
  for (int64_t i = 0; i < n; ++i) StoreElement(dtype, to, i, identity);
}

}  // namespace

PreparedKernel PrepareFold(const KernelSpec& spec) {
  const Shard& y = spec.outputs[0];
  std::vector<Region> regions;
  for (const FoldRegion& region : spec.regions) {
    ASSIGN_OR_RETURN(Region made, RegionOf(spec, region));
    regions.push_back(std::move(made));
  }
  const Combine combine = CombineTo(y, spec.reduction);
  double identity = IdentityOf(spec.reduction);
  if (!IsFloat(y.dtype) && std::isinf(identity)) {
    const bool bytes = y.dtype == DType::kU8;
    identity = identity < 0 ? (bytes ? 0.0 : -2147483648.0) : (bytes ? 255.0 : 2147483647.0);
  }
  const bool fill = spec.fill_identity;
  const int64_t n = y.NumElements();
  const DType dtype = y.dtype;
  const int output = static_cast<int>(spec.inputs.size());
  return MakeKernel([=](const KernelContext& context, const Operands& at) {
    if (fill) FillIdentity(context, dtype, identity, at.bytes(output), n);
    for (const Region& region : regions) {
      if (region.micro != 0 && region.micro != context.micro + 1) continue;
      RunRegion(context, region, combine, at, output);
    }
  });
}

// The first firing of a step sets the output, later ones combine with it.
PreparedKernel PrepareAccumulate(const KernelSpec& spec) {
  if (spec.inputs[0].dtype != spec.outputs[0].dtype) return NoKernel(spec);
  const CombineRow combine = CombineOf(spec.outputs[0].dtype, spec.reduction);
  const int64_t n = spec.outputs[0].NumElements(), size = SizeOf(spec.outputs[0].dtype);
  return MakeKernel([=](const KernelContext& context, const Operands& at) {
    Parallel(context, n, kCheapGrain, [&](int64_t begin, int64_t end) {
      const std::byte* x = at.bytes(0) + begin * size;
      std::byte* y = at.bytes(1) + begin * size;
      if (context.micro == 0) {
        std::memcpy(y, x, (end - begin) * size);
      } else {
        combine(y, x, y, end - begin);
      }
    });
  });
}

}  // namespace sluice::cpu
