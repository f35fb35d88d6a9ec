#include "framework/kernels/cpu/product.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "framework/kernels/cpu/deep_product.h"
#include "framework/kernels/cpu/library_call.h"
#include "framework/kernels/cpu/multiplication.h"
#include "framework/kernels/cpu/tiled_product.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu {
namespace {

// Below this many multiplications a call of oneDNN costs more than the product.
constexpr int64_t kSmallProduct = 2048;
// Multiplications that are worth another thread.
constexpr int64_t kGrain = 1 << 18;
// Bytes of a transposed a that a piece gathers at a time: they stay in its second cache.
constexpr int64_t kGathered = 1 << 20;

// Whether b is worth laying out in panels at each call. As it lies, rows of b that a product needs
// together are n apart. On Intel's processors (measured with AMX, oneDNN 2.6, one thread) a product
// then has from 0.95 down to 0.3 of the speed that it has in panels, least where rows are long and
// a multiple of 4 KiB: 59 GFLOP/s of 190 at 1024x3072x768, 130 of 195 at 512x2304x768. Where n is a
// power of two the library copies b itself, and does well. Panels cost 0.27 ns an element of b,
// 3 to 5 % of a product of 512 rows. On AMD (Zen 5) a product as it lies is within 5 % of one in
// panels, but in two shapes of f32 on some machines, which gain 1.1 to 1.3 times there: 1 to 2 % of
// a step, not taken so far (bench/README.md, "Weights in panels"). On Intel in bf16 panels gain 1.1
// to 1.4 times, at powers of two as well. b that is transposed lies well as it is. No bit depends
// on the choice (product_test), so shapes and processors may choose apart.
bool LaysInPanels(const ProductShape& shape) {
  constexpr int64_t kRows = 128, kColumns = 512, kElements = 1 << 16, kMostBytes = 32 << 20;
  const int64_t elements = shape.k * shape.n;
  return __builtin_cpu_is("intel") != 0 && !shape.transpose_b &&
         (shape.batch == 1 || shape.batch_b == 0) && shape.batch * shape.m >= kRows &&
         shape.n >= kColumns &&
         (shape.operands == DType::kBF16 || (shape.n & (shape.n - 1)) != 0) &&
         elements >= kElements && elements * SizeOf(shape.operands) <= kMostBytes;
}

class LibraryProduct : public Product {
 public:
  // What one thread does: blocks of rows of the matrices [matrices.begin, matrices.end) of the
  // batch. All blocks have the first one's rows, but for the last.
  struct Piece {
    Range matrices;
    std::vector<Range> blocks;
    Multiplication first, last;
    int64_t gathered = -1;  // where in scratch (bytes) columns of a transposed a are gathered
    int64_t library = 0;    // where oneDNN works
  };

  static absl::StatusOr<std::shared_ptr<const Product>> Make(const ProductShape& shape,
                                                             int threads) {
    std::shared_ptr<LibraryProduct> made;
    if (LaysInPanels(shape)) {
      ASSIGN_OR_RETURN(made, Split(shape, threads, true));
      if (made->PiecesLikeTheSamePanels()) return std::shared_ptr<const Product>(std::move(made));
    }
    ASSIGN_OR_RETURN(made, Split(shape, threads, false));
    return std::shared_ptr<const Product>(std::move(made));
  }

  void Run(const KernelContext& context, const std::byte* a, const std::byte* b, std::byte* c,
           std::byte* scratch) const override {
    const Panels& panels = this->panels();
    if (panels.width > 0) {
      std::byte* const packed = scratch + packed_;
      ForEachPiece(context, num_pieces(), [&](int64_t i) {
        const Range mine = Cut({0, panels.NumPanels(shape_.n)}, num_pieces(), i);
        panels.Pack(b, shape_.k, shape_.n, mine.begin, mine.end, packed);
      });
      b = packed;
    }
    ForEachPiece(context, num_pieces(), [&](int64_t i) { RunPiece(pieces_[i], a, b, c, scratch); });
  }

  int64_t scratch() const override { return scratch_.bytes(); }
  std::string implementation() const override { return pieces_[0].first.implementation(); }

 private:
  static absl::StatusOr<std::shared_ptr<LibraryProduct>> Split(const ProductShape& shape,
                                                               int threads, bool in_panels) {
    auto made = std::make_shared<LibraryProduct>();
    made->shape_ = shape;
    const int64_t work = shape.batch * shape.m * shape.n * shape.k;
    int64_t pieces = std::max<int64_t>(1, std::min<int64_t>(threads, work / kGrain));
    const bool by_matrix = shape.batch >= pieces;
    if (!by_matrix) pieces = std::min(pieces, (shape.m + 15) / 16);
    for (int64_t i = 0; i < pieces; ++i) {
      const Range matrices = by_matrix ? Cut({0, shape.batch}, pieces, i) : Range{0, shape.batch};
      Range rows = {0, shape.m};
      if (!by_matrix) {
        rows = Cut({0, (shape.m + 15) / 16}, pieces, i);
        rows = {rows.begin * 16, std::min(rows.end * 16, shape.m)};
      }
      ASSIGN_OR_RETURN(Piece piece, made->PieceOf(matrices, rows, in_panels));
      made->pieces_.push_back(std::move(piece));
    }
    const Panels& panels = made->panels();
    if (panels.width > 0) {
      made->packed_ = made->scratch_.Reserve(
          panels.NumPanels(shape.n) * panels.PanelElements(shape.k) * SizeOf(shape.operands));
    }
    return made;
  }

  absl::StatusOr<Piece> PieceOf(Range matrices, Range rows, bool in_panels) {
    int64_t block = rows.size(), gathered = -1;
    if (shape_.transpose_a && (rows.size() < shape_.m || TurnsA())) {
      const int64_t row = shape_.k * SizeOf(shape_.operands);
      block = std::min(block, std::max<int64_t>(256, kGathered / row / 16 * 16));
      gathered = scratch_.Reserve(block * row);
    }
    std::vector<Range> blocks;
    for (int64_t at = rows.begin; at < rows.end; at += block) {
      blocks.push_back({at, std::min(at + block, rows.end)});
    }
    ASSIGN_OR_RETURN(Multiplication first, Prepare(blocks.front(), in_panels));
    ASSIGN_OR_RETURN(Multiplication last, Prepare(blocks.back(), in_panels));
    const int64_t library = scratch_.Reserve(std::max(first.scratch_bytes(), last.scratch_bytes()));
    return Piece{matrices, std::move(blocks), std::move(first), std::move(last), gathered, library};
  }

  absl::StatusOr<Multiplication> Prepare(Range rows, bool in_panels) const {
    const Multiplication::Shape shape = {
        rows.size(),        shape_.n,        shape_.k,     shape_.transpose_a && !TurnsA(),
        shape_.transpose_b, shape_.operands, shape_.result};
    return in_panels ? Multiplication::PrepareInPanels(shape) : Multiplication::Prepare(shape);
  }

  // In bf16 the library takes a transposed a at 0.8 of the speed of one that lies row by row: it is
  // turned as it is gathered.
  bool TurnsA() const { return shape_.operands == DType::kBF16; }
  // Columns of a transposed a, `rows` of them, from the first at `from`.
  void Gather(const std::byte* from, int64_t rows, std::byte* gathered) const {
    if (TurnsA()) {
      Vectors().arithmetic.transpose_halves(reinterpret_cast<const uint16_t*>(from), shape_.m,
                                            shape_.k, rows, reinterpret_cast<uint16_t*>(gathered),
                                            shape_.k);
      return;
    }
    const int64_t size = SizeOf(shape_.operands);
    for (int64_t d = 0; d < shape_.k; ++d) {
      std::memcpy(gathered + d * rows * size, from + d * shape_.m * size, rows * size);
    }
  }

  int64_t num_pieces() const { return static_cast<int64_t>(pieces_.size()); }
  // How b lies for every piece: they read one copy.
  const Panels& panels() const { return pieces_[0].first.panels(); }
  bool PiecesLikeTheSamePanels() const {
    return panels().width > 0 && std::ranges::all_of(pieces_, [&](const Piece& piece) {
             return piece.first.panels() == panels() && piece.last.panels() == panels();
           });
  }

  void RunPiece(const Piece& piece, const std::byte* a, const std::byte* b, std::byte* c,
                std::byte* scratch) const {
    const int64_t size = SizeOf(shape_.operands), result_size = SizeOf(shape_.result);
    for (int64_t i = piece.matrices.begin; i < piece.matrices.end; ++i) {
      for (const Range& block : piece.blocks) {
        const int64_t rows = block.size();
        const std::byte* from = a + i * shape_.batch_a * size;
        if (piece.gathered >= 0) {
          std::byte* gathered = scratch + piece.gathered;
          Gather(from + block.begin * size, rows, gathered);
          from = gathered;
        } else {
          from += block.begin * shape_.k * size;  // 0 if transposed: then the piece has all rows
        }
        const Multiplication& run = &block == &piece.blocks.back() ? piece.last : piece.first;
        run.Run(from, b + i * shape_.batch_b * size,
                c + (i * shape_.m + block.begin) * shape_.n * result_size, scratch + piece.library);
      }
    }
  }

  ProductShape shape_;
  std::vector<Piece> pieces_;
  ScratchLayout scratch_;
  int64_t packed_ = 0;  // where in scratch b's panels are
};

// Plain loops, for small products, and for those with nothing to sum.
class SmallProduct : public Product {
 public:
  explicit SmallProduct(const ProductShape& shape) : s_(shape) {}

  void Run(const KernelContext&, const std::byte* a, const std::byte* b, std::byte* c,
           std::byte*) const override {
    const bool low = s_.operands == DType::kBF16;
    const auto at = [low](const std::byte* x, int64_t i) {
      return low ? BFloat16ToFloat(reinterpret_cast<const uint16_t*>(x)[i])
                 : reinterpret_cast<const float*>(x)[i];
    };
    for (int64_t i = 0; i < s_.batch; ++i) {
      for (int64_t r = 0; r < s_.m; ++r) {
        for (int64_t col = 0; col < s_.n; ++col) {
          float sum = 0;
          for (int64_t d = 0; d < s_.k; ++d) {
            sum += at(a, i * s_.batch_a + (s_.transpose_a ? d * s_.m + r : r * s_.k + d)) *
                   at(b, i * s_.batch_b + (s_.transpose_b ? col * s_.k + d : d * s_.n + col));
          }
          const int64_t to = (i * s_.m + r) * s_.n + col;
          if (s_.result == DType::kBF16) {
            reinterpret_cast<uint16_t*>(c)[to] = FloatToBFloat16(sum);
          } else {
            reinterpret_cast<float*>(c)[to] = sum;
          }
        }
      }
    }
  }
  int64_t scratch() const override { return 0; }
  std::string implementation() const override { return ""; }

 private:
  ProductShape s_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Product>> Product::Prepare(const ProductShape& shape,
                                                                int threads) {
  const int64_t each = shape.m * shape.n * shape.k;
  // Small ones too, so that a row's bits are the same in a product of few.
  if (each > 0 && ProductsAreTiled()) return MakeTiledProduct(shape, threads);
  if (each < kSmallProduct || shape.batch == 0) {
    return std::shared_ptr<const Product>(std::make_shared<SmallProduct>(shape));
  }
  // A primitive remembers the number of threads of its creation.
  InitKernelThread();
  return IsDeep(shape) ? PrepareDeepProduct(shape, threads) : LibraryProduct::Make(shape, threads);
}

}  // namespace sluice::cpu
