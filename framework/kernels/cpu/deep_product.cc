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

// Elements of the depth of one part, at most. A thread's rows of it, some hundreds, fit into its
// second cache; the sums that are added up for each part are a tenth of what is multiplied.
constexpr int64_t kDepth = 2048;
constexpr int64_t kFewestParts = 6;
// Parts are of like depth, cut at multiples of this: a short last one would be slow.
constexpr int64_t kUnit = 32;

class DeepProduct : public Product {
 public:
  static absl::StatusOr<std::shared_ptr<const Product>> Make(const ProductShape& shape,
                                                             int threads) {
    ASSIGN_OR_RETURN(std::shared_ptr<DeepProduct> made, Split(shape, threads, true));
    // Pieces read one copy of a part of b. Where they like different panels it is left as it lies,
    // which changes no bit (product_test).
    if (!made->LikesOneLayout()) {
      ASSIGN_OR_RETURN(made, Split(shape, threads, false));
    }
    return std::shared_ptr<const Product>(std::move(made));
  }

  void Run(const KernelContext& context, const std::byte* a, const std::byte* b, std::byte* c,
           std::byte* scratch) const override {
    const int64_t row = shape_.n * SizeOf(shape_.operands);
    for (size_t p = 0; p < parts_.size(); ++p) {
      const Range part = parts_[p];
      const std::byte* right = b + part.begin * row;
      if (panels().width > 0) {
        ForEachPiece(context, num_pieces(), [&](int64_t i) {
          const Range mine = Cut({0, panels().NumPanels(shape_.n)}, num_pieces(), i);
          panels().Pack(right, part.size(), shape_.n, mine.begin, mine.end, scratch + packed_);
        });
        right = scratch + packed_;
      }
      ForEachPiece(context, num_pieces(),
                   [&](int64_t i) { RunPart(pieces_[i], p, a, right, c, scratch); });
    }
  }

  int64_t scratch() const override { return scratch_.bytes(); }
  std::string implementation() const override { return pieces_[0].parts[0].implementation(); }

 private:
  // Rows of a thread, and where in scratch it has them of a part, what it multiplied, and where
  // oneDNN works.
  struct Piece {
    Range rows;
    std::vector<Multiplication> parts;
    int64_t copied, product, sum, library;
  };

  static absl::StatusOr<std::shared_ptr<DeepProduct>> Split(const ProductShape& shape, int threads,
                                                            bool in_panels) {
    auto made = std::make_shared<DeepProduct>();
    made->shape_ = shape;
    const int64_t units = (shape.k + kUnit - 1) / kUnit, parts = (shape.k + kDepth - 1) / kDepth;
    for (int64_t i = 0; i < parts; ++i) {
      const Range cut = Cut({0, units}, parts, i);
      made->parts_.push_back({cut.begin * kUnit, std::min(cut.end * kUnit, shape.k)});
    }
    const int64_t groups = (shape.m + 15) / 16, pieces = std::min<int64_t>(threads, groups);
    for (int64_t i = 0; i < pieces; ++i) {
      const Range cut = Cut({0, groups}, pieces, i);
      const Range rows = {cut.begin * 16, std::min(cut.end * 16, shape.m)};
      ASSIGN_OR_RETURN(Piece piece, made->PieceOf(rows, in_panels));
      made->pieces_.push_back(std::move(piece));
    }
    const Panels& panels = made->panels();
    if (panels.width > 0) {
      made->packed_ = made->scratch_.Reserve(panels.NumPanels(shape.n) *
                                             panels.PanelElements(kDepth) * SizeOf(shape.operands));
    }
    return made;
  }

  absl::StatusOr<Piece> PieceOf(Range rows, bool in_panels) {
    Piece piece;
    piece.rows = rows;
    int64_t library = 0;
    for (const Range& part : parts_) {
      Multiplication::Shape shape;
      shape.m = rows.size(), shape.n = shape_.n, shape.k = part.size();
      shape.operands = shape_.operands;
      ASSIGN_OR_RETURN(Multiplication made, in_panels ? Multiplication::PrepareInPanels(shape)
                                                      : Multiplication::Prepare(shape));
      library = std::max(library, made.scratch_bytes());
      piece.parts.push_back(std::move(made));
    }
    const int64_t sums = rows.size() * shape_.n * 4;
    piece.copied = scratch_.Reserve(rows.size() * kDepth * SizeOf(shape_.operands));
    piece.product = scratch_.Reserve(sums);
    piece.sum = scratch_.Reserve(sums);
    piece.library = scratch_.Reserve(library);
    return piece;
  }

  int64_t num_pieces() const { return static_cast<int64_t>(pieces_.size()); }
  const Panels& panels() const { return pieces_[0].parts[0].panels(); }
  bool LikesOneLayout() const {
    return std::ranges::all_of(pieces_, [&](const Piece& piece) {
      return std::ranges::all_of(
          piece.parts, [&](const Multiplication& part) { return part.panels() == panels(); });
    });
  }

  void RunPart(const Piece& piece, size_t index, const std::byte* a, const std::byte* b,
               std::byte* c, std::byte* scratch) const {
    const Range part = parts_[index];
    const int64_t size = SizeOf(shape_.operands), row = part.size() * size;
    std::byte* const copied = scratch + piece.copied;
    for (int64_t r = 0; r < piece.rows.size(); ++r) {
      std::memcpy(copied + r * row, a + ((piece.rows.begin + r) * shape_.k + part.begin) * size,
                  row);
    }
    const bool first = index == 0, last = index + 1 == parts_.size();
    const bool low = shape_.result == DType::kBF16;
    const int64_t elements = piece.rows.size() * shape_.n, begin = piece.rows.begin * shape_.n;
    float* const sum =
        low ? reinterpret_cast<float*>(scratch + piece.sum) : reinterpret_cast<float*>(c) + begin;
    float* const product = first ? sum : reinterpret_cast<float*>(scratch + piece.product);
    piece.parts[index].Run(copied, b, reinterpret_cast<std::byte*>(product),
                           scratch + piece.library);
    if (!first) Vectors().f32.elementwise.add.both(sum, product, sum, elements);
    if (last && low) {
      Vectors().arithmetic.to_bf16(sum, reinterpret_cast<BFloat16*>(c) + begin, elements);
    }
  }

  ProductShape shape_;
  std::vector<Range> parts_;  // of the depth
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
