// The gradient by the input of a large vocabulary's logits, [1024, 50304] times [50304, 768], is
// such a product. Rows of its first matrix are so long that whatever lies below each other in it is
// on pages of their own: oneDNN has 0.65 of its speed then in f32, 0.5 in bf16 (Intel with AMX). So
// a part of the depth at a time is copied to where its rows lie close together, multiplied by the
// rows of b that belong to it, laid in panels where oneDNN likes that, and added to the parts
// before, in order and in f32.
#include "framework/kernels/cpu/deep_product.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "framework/kernels/cpu/multiplication.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu {
namespace {

// Elements of the depth of one part. A thread's rows of it, some hundreds, fit into its second
// cache; the sums that are added up for each part are a tenth of what is multiplied.
constexpr int64_t kDepth = 2048;
constexpr int64_t kFewestParts = 6;

class DeepProduct : public Product {
 public:
  static absl::StatusOr<std::shared_ptr<const Product>> Make(const ProductShape& shape,
                                                             int threads) {
    auto made = std::make_shared<DeepProduct>();
    made->shape_ = shape;
    const int64_t groups = (shape.m + 15) / 16, pieces = std::min<int64_t>(threads, groups);
    for (int64_t i = 0; i < pieces; ++i) {
      const Range cut = Cut({0, groups}, pieces, i);
      ASSIGN_OR_RETURN(Piece piece,
                       made->PieceOf({cut.begin * 16, std::min(cut.end * 16, shape.m)}));
      made->pieces_.push_back(std::move(piece));
    }
    if (made->panels().width > 0) {
      const int64_t elements =
          made->panels().NumPanels(shape.n) * made->panels().PanelElements(kDepth);
      made->packed_ = made->scratch_.Reserve(elements * SizeOf(shape.operands));
    }
    return std::shared_ptr<const Product>(std::move(made));
  }

  void Run(const KernelContext& context, const std::byte* a, const std::byte* b, std::byte* c,
           std::byte* scratch) const override {
    const int64_t row = shape_.n * SizeOf(shape_.operands);
    for (int64_t at = 0; at < shape_.k; at += kDepth) {
      const Range part = {at, std::min(at + kDepth, shape_.k)};
      const std::byte* right = b + part.begin * row;
      if (panels().width > 0) {
        ForEachPiece(context, num_pieces(), [&](int64_t i) {
          const Range mine = Cut({0, panels().NumPanels(shape_.n)}, num_pieces(), i);
          panels().Pack(right, part.size(), shape_.n, mine.begin, mine.end, scratch + packed_);
        });
        right = scratch + packed_;
      }
      ForEachPiece(context, num_pieces(),
                   [&](int64_t i) { RunPart(pieces_[i], part, a, right, c, scratch); });
    }
  }

  int64_t scratch() const override { return scratch_.bytes(); }
  std::string implementation() const override { return pieces_[0].whole.implementation(); }

 private:
  // Rows of a thread, and where in scratch it has them of a part, and what it multiplied.
  struct Piece {
    Range rows;
    Multiplication whole, last;  // of all parts but the last, and of that
    int64_t copied, product, sum;
  };

  absl::StatusOr<Piece> PieceOf(Range rows) {
    const int64_t last = shape_.k - (shape_.k - 1) / kDepth * kDepth;
    ASSIGN_OR_RETURN(Multiplication whole, Prepare(rows.size(), kDepth));
    ASSIGN_OR_RETURN(Multiplication rest, Prepare(rows.size(), last));
    const int64_t sums = rows.size() * shape_.n * 4;
    // What does not like the panels of the others has b as it lies.
    const bool differs = !pieces_.empty() && whole.panels() != panels();
    if (whole.panels() != rest.panels() || differs) {
      return absl::InternalError("oneDNN lays parts of one product in different panels");
    }
    return Piece{rows,
                 std::move(whole),
                 std::move(rest),
                 scratch_.Reserve(rows.size() * kDepth * SizeOf(shape_.operands)),
                 scratch_.Reserve(sums),
                 scratch_.Reserve(sums)};
  }

  absl::StatusOr<Multiplication> Prepare(int64_t rows, int64_t depth) const {
    Multiplication::Shape shape;
    shape.m = rows, shape.n = shape_.n, shape.k = depth, shape.operands = shape_.operands;
    return Multiplication::PrepareInPanels(shape);
  }

  int64_t num_pieces() const { return static_cast<int64_t>(pieces_.size()); }
  const Panels& panels() const { return pieces_[0].whole.panels(); }

  void RunPart(const Piece& piece, Range part, const std::byte* a, const std::byte* b, std::byte* c,
               std::byte* scratch) const {
    const int64_t size = SizeOf(shape_.operands), row = part.size() * size;
    std::byte* const copied = scratch + piece.copied;
    for (int64_t r = 0; r < piece.rows.size(); ++r) {
      std::memcpy(copied + r * row, a + ((piece.rows.begin + r) * shape_.k + part.begin) * size,
                  row);
    }
    const bool first = part.begin == 0, last = part.end == shape_.k;
    const bool low = shape_.result == DType::kBF16;
    const int64_t elements = piece.rows.size() * shape_.n, begin = piece.rows.begin * shape_.n;
    float* const sum =
        low ? reinterpret_cast<float*>(scratch + piece.sum) : reinterpret_cast<float*>(c) + begin;
    float* const product = first ? sum : reinterpret_cast<float*>(scratch + piece.product);
    (last ? piece.last : piece.whole).Run(copied, b, reinterpret_cast<std::byte*>(product));
    if (!first) Vectors().f32.elementwise.add.both(sum, product, sum, elements);
    if (last && low) {
      Vectors().arithmetic.to_bf16(sum, reinterpret_cast<BFloat16*>(c) + begin, elements);
    }
  }

  ProductShape shape_;
  std::vector<Piece> pieces_;
  ScratchLayout scratch_;
  int64_t packed_ = 0;  // where in scratch b's panels are
};

}  // namespace

bool IsDeep(const ProductShape& shape) {
  return shape.k >= kFewestParts * kDepth && shape.batch == 1 && !shape.transpose_a &&
         !shape.transpose_b && shape.n >= 64;
}

absl::StatusOr<std::shared_ptr<const Product>> PrepareDeepProduct(const ProductShape& shape,
                                                                  int threads) {
  return DeepProduct::Make(shape, threads);
}

}  // namespace sluice::cpu
