// Ops that only make, copy, repeat or lay out elements anew, by element size.
#include <cstring>

#include "framework/kernels/cpu/all_kernels.h"
#include "framework/kernels/cpu/strided.h"
#include "framework/kernels/cpu/vector.h"
#include "framework/kernels/movement_shape.h"
#include "framework/tensor/array.h"

namespace sluice::cpu {
namespace {

// One copy of to[offsets] = from[offsets]; source 0, target 1.
template <typename T>
void CopyRow(const T* from, int64_t from_step, T* to, int64_t to_step, int64_t n) {
  if (from_step == 1 && to_step == 1) {
    std::memcpy(to, from, n * sizeof(T));
  } else if (from_step == 0 && to_step == 1) {
    std::fill(to, to + n, *from);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i * to_step] = from[i * from_step];
  }
}

template <typename T>
void CopyAll(const KernelContext& context, const StridedLoop& loop, const T* from, T* to) {
  const int64_t from_step = loop.row_stride(0), to_step = loop.row_stride(1);
  loop.ForAll(context, kCheapGrain, [&](const int64_t* offsets, int64_t n) {
    CopyRow(from + offsets[0], from_step, to + offsets[1], to_step, n);
  });
}

// Elements are bits of this size.
template <typename F>
void BySize(DType dtype, F&& fn) {
  switch (SizeOf(dtype)) {
    case 1:
      return fn(uint8_t());
    case 2:
      return fn(uint16_t());
    case 8:
      return fn(uint64_t());
    default:
      return fn(uint32_t());
  }
}

absl::Status RequireOneType(const KernelSpec& spec) {
  for (const Shard& input : spec.inputs) {
    if (input.dtype != spec.outputs[0].dtype) return NoKernel(spec);
  }
  return absl::OkStatus();
}

// Copies of `loop`, input i to the output from element `first_out`.
PreparedKernel CopyKernel(const KernelSpec& spec, const StridedLoop& loop, int64_t first_in = 0,
                          int64_t first_out = 0) {
  const DType dtype = spec.outputs[0].dtype;
  return MakeKernel([=](const KernelContext& context, const Operands& at) {
    BySize(dtype, [&](auto bits) {
      using T = decltype(bits);
      CopyAll(context, loop, at.at<const T>(0) + first_in, at.at<T>(1) + first_out);
    });
  });
}

// A permutation of dimensions that keeps the last one of neither side: matrices to be transposed,
// one for each index of the other dimensions. Elements are of 4 bytes.
struct Matrices {
  static constexpr int64_t kColumns = 64;  // that are walked at a time: so many lines are open
  int64_t rows = 0, columns = 0;           // of the input; rows are the output's last dimension
  int64_t from_row = 0, to_row = 0;        // strides
  std::vector<int64_t> extent, from, to;   // other dimensions
  int64_t count = 1;

  int64_t blocks() const { return (columns + kColumns - 1) / kColumns; }
  void TransposeBlock(int64_t block, const float* x, float* y) const {
    int64_t rest = block / blocks();
    for (size_t d = extent.size(); d-- > 0; rest /= extent[d]) {
      x += rest % extent[d] * from[d];
      y += rest % extent[d] * to[d];
    }
    const int64_t first = block % blocks() * kColumns;
    Vectors().arithmetic.transpose(x + first, from_row, rows, std::min(kColumns, columns - first),
                                   y + first * to_row, to_row);
  }
};

// False if the loop (input, output) is no such thing.
bool MatricesOf(const StridedLoop& loop, Matrices* made) {
  const int last = loop.rank() - 1;
  if (loop.row_stride(1) != 1 || loop.row_stride(0) == 1 || loop.rows() == 0) return false;
  made->rows = loop.row_length();
  made->from_row = loop.row_stride(0);
  for (int d = 0; d < last; ++d) {
    if (made->columns == 0 && loop.stride(0, d) == 1) {
      made->columns = loop.extent(d);
      made->to_row = loop.stride(1, d);
      continue;
    }
    made->extent.push_back(loop.extent(d));
    made->from.push_back(loop.stride(0, d));
    made->to.push_back(loop.stride(1, d));
    made->count *= loop.extent(d);
  }
  return made->columns > 0;
}

PreparedKernel PermuteKernel(const KernelSpec& spec, const Shape& strides) {
  const Shape& y = spec.outputs[0].local;
  const StridedLoop loop(y, {strides, y.Strides()});
  Matrices matrices;
  if (SizeOf(spec.outputs[0].dtype) != 4 || !MatricesOf(loop, &matrices)) {
    return CopyKernel(spec, loop);
  }
  return MakeKernel([matrices](const KernelContext& context, const Operands& at) {
    ParallelRows(context, matrices.count * matrices.blocks(), matrices.rows * Matrices::kColumns,
                 kCheapGrain, [&](int64_t begin, int64_t end) {
                   for (int64_t block = begin; block < end; ++block) {
                     matrices.TransposeBlock(block, at.at(0), at.at(1));
                   }
                 });
  });
}

}  // namespace

PreparedKernel PrepareFill(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const FillAttributes attributes,
                   ParseAttributes<FillAttributes>(spec.attributes));
  const Shard& y = spec.outputs[0];
  uint64_t bits = 0;
  StoreElement(y.dtype, reinterpret_cast<std::byte*>(&bits), 0, attributes.value);
  const int64_t n = y.NumElements();
  const DType dtype = y.dtype;
  return MakeKernel([=](const KernelContext& context, const Operands& at) {
    BySize(dtype, [&](auto zero) {
      using T = decltype(zero);
      T value;
      std::memcpy(&value, &bits, sizeof(T));
      T* to = at.at<T>(0);
      Parallel(context, n, kCheapGrain,
               [&](int64_t begin, int64_t end) { std::fill(to + begin, to + end, value); });
    });
  });
}

PreparedKernel PrepareCopy(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireOneType(spec));
  const int64_t bytes = spec.outputs[0].NumBytes();
  return MakeKernel([bytes](const KernelContext& context, const Operands& at) {
    Parallel(context, bytes, 4 * kCheapGrain, [&](int64_t begin, int64_t end) {
      std::memmove(at.bytes(1) + begin, at.bytes(0) + begin, end - begin);
    });
  });
}

PreparedKernel PrepareTranspose(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireOneType(spec));
  ASSIGN_OR_RETURN(const Shape strides, TransposedStrides(spec));
  return PermuteKernel(spec, strides);
}

PreparedKernel PrepareTransposeGradient(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireOneType(spec));
  ASSIGN_OR_RETURN(const Shape strides, TransposedBackStrides(spec));
  return PermuteKernel(spec, strides);
}

PreparedKernel PrepareSlice(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireOneType(spec));
  ASSIGN_OR_RETURN(const int64_t begin, SliceBegin(spec));
  const Shape& y = spec.outputs[0].local;
  return CopyKernel(spec, StridedLoop(y, {spec.inputs[0].local.Strides(), y.Strides()}), begin);
}

PreparedKernel PreparePad(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireOneType(spec));
  ASSIGN_OR_RETURN(const PaddedPieces padded, PaddedPiecesOf(spec));
  return MakeKernel([padded](const KernelContext& context, const Operands& at) {
    if (padded.whole == 0) return;  // what is empty has no address
    ParallelRows(
        context, padded.pieces, padded.whole, 4 * kCheapGrain, [&](int64_t begin, int64_t end) {
          for (int64_t piece = begin; piece < end; ++piece) {
            std::byte* to = at.bytes(1) + piece * padded.whole;
            std::memset(to, 0, padded.before);
            if (padded.bytes > 0) {
              std::memcpy(to + padded.before, at.bytes(0) + piece * padded.bytes, padded.bytes);
            }
            std::memset(to + padded.before + padded.bytes, 0,
                        padded.whole - padded.before - padded.bytes);
          }
        });
  });
}

PreparedKernel PrepareConcat(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireOneType(spec));
  ASSIGN_OR_RETURN(const ConcatAttributes attributes,
                   ParseAttributes<ConcatAttributes>(spec.attributes));
  const int dim = static_cast<int>(attributes.dim);
  const Shard& y = spec.outputs[0];
  int64_t outer = 1, inner = SizeOf(y.dtype);
  for (int d = 0; d < y.local.rank(); ++d) {
    if (d < dim) outer *= y.local[d];
    if (d > dim) inner *= y.local[d];
  }
  std::vector<int64_t> pieces;  // bytes of a row
  for (const Shard& input : spec.inputs) pieces.push_back(input.local[dim] * inner);
  const int64_t whole = y.local[dim] * inner;
  return MakeKernel([=](const KernelContext& context, const Operands& at) {
    const int inputs = static_cast<int>(pieces.size());
    ParallelRows(context, outer, whole, 4 * kCheapGrain, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        std::byte* to = at.bytes(inputs) + o * whole;
        for (int i = 0; i < inputs; to += pieces[i], ++i) {
          if (pieces[i] > 0) std::memcpy(to, at.bytes(i) + o * pieces[i], pieces[i]);
        }
      }
    });
  });
}

PreparedKernel PrepareCast(const KernelSpec& spec) {
  const DType from = spec.inputs[0].dtype, to = spec.outputs[0].dtype;
  if (from == to) return PrepareCopy(spec);
  const int64_t n = spec.outputs[0].NumElements();
  if (from == DType::kF32 && to == DType::kBF16) {
    return MakeKernel([n](const KernelContext& context, const Operands& at) {
      Parallel(context, n, kCheapGrain, [&](int64_t begin, int64_t end) {
        Vectors().arithmetic.to_bf16(at.at(0) + begin, at.at<uint16_t>(1) + begin, end - begin);
      });
    });
  }
  if (from == DType::kBF16 && to == DType::kF32) {
    return MakeKernel([n](const KernelContext& context, const Operands& at) {
      Parallel(context, n, kCheapGrain, [&](int64_t begin, int64_t end) {
        Vectors().arithmetic.from_bf16(at.at<uint16_t>(0) + begin, at.at(1) + begin, end - begin);
      });
    });
  }
  return MakeKernel([=](const KernelContext& context, const Operands& at) {
    Parallel(context, n, kCostlyGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        StoreElement(to, at.bytes(1), i, LoadElement(from, at.bytes(0), i));
      }
    });
  });
}

PreparedKernel PrepareBroadcast(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireOneType(spec));
  const Shard& y = spec.outputs[0];
  return CopyKernel(spec,
                    StridedLoop(y.local, {BroadcastStrides(spec.inputs[0], y), y.local.Strides()}));
}

}  // namespace sluice::cpu
