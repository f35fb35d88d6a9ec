// c is made by blocks of columns; of each block the depth by parts; of each part b's columns are
// packed once for all threads, which then pack and multiply some rows of a at a time. bf16 becomes
// f32 as it is packed, and a result of bf16 is summed in f32 and rounded once.
//
// Sizes of blocks are those of a Zen 3, and of every processor with AVX2 in size at least: a panel
// (16 KiB) and a strip stay in a first cache of 32 KiB, the strips of kRows in a second of 256 KiB,
// kColumns of b in a third. None of them changes a bit.
#include "framework/kernels/cpu/tiled_product.h"

#include <dnnl.h>

#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu {
namespace {

constexpr int64_t kRows = 32 * kStripRows;
constexpr int64_t kColumns = 1024;
// Up to so many rows b is multiplied as it lies: it is read once, and packing reads it once more.
// Where it must be packed, no more at a time than stays in the second cache.
constexpr int64_t kFewRows = 12, kFewRowsColumns = 192;
// Multiplications that are worth another thread.
constexpr int64_t kGrain = 1 << 18;

int64_t RoundedUp(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

template <typename T>
const PackLoops<T>& Packs();
template <>
const PackLoops<float>& Packs() {
  return v3::kTiledProduct.f32;
}
template <>
const PackLoops<BFloat16>& Packs() {
  return v3::kTiledProduct.bf16;
}

class TiledProduct : public Product {
 public:
  TiledProduct(const ProductShape& shape, int threads) : s_(shape) {
    const int64_t worthwhile = s_.batch * s_.m * s_.n * s_.k / kGrain;
    int64_t pieces = std::max<int64_t>(1, std::min<int64_t>(threads, worthwhile));
    // Of what all matrices share there would be many copies.
    by_matrix_ = pieces == 1 || (s_.batch >= pieces && s_.batch_a > 0 && s_.batch_b > 0);
    const int64_t strips = (s_.m + kStripRows - 1) / kStripRows;
    if (!by_matrix_) pieces = std::min(pieces, strips);
    pieces_ = pieces;
    low_ = s_.result == DType::kBF16;
    few_ = s_.m <= kFewRows && !s_.transpose_b && s_.operands == DType::kF32;
    columns_ = s_.m <= kFewRows && !few_ ? kFewRowsColumns : kColumns;
    columns_ = std::min(columns_, RoundedUp(s_.n, kPanelColumns));
    sums_row_ = std::min(columns_, s_.n);
    const int64_t depth = std::min(s_.k, kTiledDepth);
    const int64_t rows = std::min(kRows, (strips + pieces - 1) / pieces * kStripRows);
    for (int64_t i = 0; i < pieces; ++i) {
      if (i == 0 || by_matrix_) {
        panels_.push_back(layout_.Reserve(few_ ? 0 : columns_ * depth * 4));
        if (low_) sums_.push_back(layout_.Reserve(s_.m * sums_row_ * 4));
      }
      strips_.push_back(
          layout_.Reserve((by_matrix_ ? std::min(kRows, strips * kStripRows) : rows) * depth * 4));
    }
  }

  void Run(const KernelContext& context, const std::byte* a, const std::byte* b, std::byte* c,
           std::byte* scratch) const override {
    if (s_.operands == DType::kBF16) {
      RunOf<BFloat16>(context, a, b, c, scratch);
    } else {
      RunOf<float>(context, a, b, c, scratch);
    }
  }

  int64_t scratch() const override { return layout_.bytes(); }
  std::string implementation() const override { return "tiled:avx2"; }

 private:
  // Part of one matrix of the batch.
  template <typename T>
  struct Block {
    const T *a, *b;
    std::byte* c;
    Range columns, depth;
  };

  template <typename T>
  void RunOf(const KernelContext& context, const std::byte* a, const std::byte* b, std::byte* c,
             std::byte* scratch) const {
    const auto for_blocks = [&](int64_t i, auto&& run) {
      for (int64_t j = 0; j < s_.n; j += columns_) {
        for (int64_t d = 0; d < s_.k; d += kTiledDepth) {
          run(Block<T>{reinterpret_cast<const T*>(a) + i * s_.batch_a,
                       reinterpret_cast<const T*>(b) + i * s_.batch_b,
                       c + i * s_.m * s_.n * SizeOf(s_.result),
                       {j, std::min(j + columns_, s_.n)},
                       {d, std::min(d + kTiledDepth, s_.k)}});
        }
      }
    };
    if (by_matrix_) {
      ForEachPiece(context, pieces_, [&](int64_t piece) {
        const Range matrices = Cut({0, s_.batch}, pieces_, piece);
        for (int64_t i = matrices.begin; i < matrices.end; ++i) {
          for_blocks(i, [&](const Block<T>& block) {
            if (!few_) Pack(block, block.columns, Floats(scratch, panels_[piece]));
            MultiplyRows(block, {0, s_.m}, piece, scratch);
          });
        }
      });
      return;
    }
    const int64_t strips = (s_.m + kStripRows - 1) / kStripRows;
    for (int64_t i = 0; i < s_.batch; ++i) {
      for_blocks(i, [&](const Block<T>& block) {
        ForEachPiece(context, few_ ? 0 : pieces_, [&](int64_t piece) {
          const int64_t panels = (block.columns.size() + kPanelColumns - 1) / kPanelColumns;
          const Range mine = Cut({0, panels}, pieces_, piece);
          const int64_t first = mine.begin * kPanelColumns;
          Pack(block,
               {block.columns.begin + first,
                std::min(block.columns.begin + mine.end * kPanelColumns, block.columns.end)},
               Floats(scratch, panels_[0]) + first * block.depth.size());
        });
        ForEachPiece(context, pieces_, [&](int64_t piece) {
          const Range mine = Cut({0, strips}, pieces_, piece);
          MultiplyRows(block, {mine.begin * kStripRows, std::min(mine.end * kStripRows, s_.m)},
                       piece, scratch);
        });
      });
    }
  }

  static float* Floats(std::byte* scratch, int64_t at) {
    return reinterpret_cast<float*>(scratch + at);
  }

  template <typename T>
  void Pack(const Block<T>& block, Range columns, float* to) const {
    const int64_t d = block.depth.begin, depth = block.depth.size();
    if (s_.transpose_b) {
      Packs<T>().panels_along(block.b + columns.begin * s_.k + d, s_.k, columns.size(), depth, to);
    } else {
      Packs<T>().panels_across(block.b + d * s_.n + columns.begin, s_.n, columns.size(), depth, to);
    }
  }

  template <typename T>
  void MultiplyRows(const Block<T>& block, Range rows, int64_t piece, std::byte* scratch) const {
    const int64_t d = block.depth.begin, depth = block.depth.size();
    const int64_t columns = block.columns.size(), group = by_matrix_ ? piece : 0;
    const float* const panels = Floats(scratch, panels_[group]);
    float* const strips = Floats(scratch, strips_[piece]);
    float* const c = low_ ? Floats(scratch, sums_[group])
                          : reinterpret_cast<float*>(block.c) + block.columns.begin;
    const int64_t c_row = low_ ? sums_row_ : s_.n;
    for (int64_t r = rows.begin; r < rows.end; r += kRows) {
      const int64_t some = std::min(kRows, rows.end - r);
      if (s_.transpose_a) {
        Packs<T>().strips_across(block.a + d * s_.m + r, s_.m, some, depth, strips);
      } else {
        Packs<T>().strips_along(block.a + r * s_.k + d, s_.k, some, depth, strips);
      }
      float* const to = c + r * c_row;
      if constexpr (std::is_same_v<T, float>) {
        if (few_) {
          const float* const b = block.b + d * s_.n + block.columns.begin;
          v3::kTiledProduct.multiply_few(strips, some, b, s_.n, columns, depth, d > 0, to, c_row);
          continue;
        }
      }
      v3::kTiledProduct.multiply(strips, some, panels, columns, depth, d > 0, to, c_row);
    }
    if (!low_ || block.depth.end < s_.k) return;
    BFloat16* const result = reinterpret_cast<BFloat16*>(block.c) + block.columns.begin;
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      Vectors().arithmetic.to_bf16(c + r * c_row, result + r * s_.n, columns);
    }
  }

  ProductShape s_;
  bool by_matrix_ = false, low_ = false, few_ = false;
  int64_t pieces_ = 1, columns_ = 0, sums_row_ = 0;
  // Where in scratch a piece has its strips; panels and sums in f32, of pieces that take matrices
  // each has its own.
  std::vector<int64_t> strips_, panels_, sums_;
  ScratchLayout layout_;
};

}  // namespace

bool ProductsAreTiled() {
  return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) != dnnl_cpu_isa_avx512_core;
}

std::shared_ptr<const Product> MakeTiledProduct(const ProductShape& shape, int threads) {
  return std::make_shared<TiledProduct>(shape, threads);
}

}  // namespace sluice::cpu
