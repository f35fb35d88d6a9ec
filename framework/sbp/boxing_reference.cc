// What layouts mean, in plain loops.
#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/sbp/layout.h"

namespace sluice {
namespace {

bool SameBits(const Array& a, const Array& b) {
  return a.shape == b.shape &&
         (a.values.empty() ||
          std::memcmp(a.values.data(), b.values.data(), a.values.size() * sizeof(double)) == 0);
}

// What one device or a group of devices holds together.
struct Piece {
  Box box;
  Array values;
};

// The tree over pieces [low, high) that cuts at the largest power of two below their number.
Array FoldPieces(const std::vector<Piece>& pieces, size_t low, size_t high, Reduction reduction) {
  if (high - low == 1) return pieces[low].values;
  size_t power = 1;
  while (power * 2 < high - low) power *= 2;
  Array left = FoldPieces(pieces, low, low + power, reduction);
  const Array right = FoldPieces(pieces, low + power, high, reduction);
  for (size_t i = 0; i < left.values.size(); ++i) {
    left.values[i] = Reduce(reduction, left.values[i], right.values[i]);
  }
  return left;
}

// Joins the pieces of one group along one axis.
absl::StatusOr<Piece> Join(const std::vector<Piece>& pieces, Sbp sbp) {
  if (sbp.is_broadcast()) {
    for (const Piece& piece : pieces) {
      if (!SameBits(piece.values, pieces[0].values)) {
        return absl::DataLossError(
            absl::StrCat("replicas of box ", BoxToString(piece.box), " differ"));
      }
    }
    return pieces[0];
  }
  if (sbp.is_partial()) {
    return Piece{pieces[0].box, FoldPieces(pieces, 0, pieces.size(), sbp.reduction)};
  }
  Piece whole;
  whole.box = pieces.front().box;
  whole.box[sbp.dim].end = pieces.back().box[sbp.dim].end;
  whole.values = Array(ShapeOf(whole.box));
  for (const Piece& piece : pieces) Assign(piece.values, piece.box, whole.box, &whole.values);
  return whole;
}

}  // namespace

std::vector<Array> ScatterReference(const Layout& layout, const Array& whole) {
  std::vector<Array> shards;
  for (int64_t i = 0; i < layout.mesh.num_devices(); ++i) {
    const Placement placement =
        PlacementAt(layout.mesh, layout.sbp, whole.shape, layout.mesh.Coordinates(i));
    if (placement.partial == 0) {
      shards.push_back(Slice(whole, WholeBox(whole.shape), placement.box));
    } else {
      shards.emplace_back(ShapeOf(placement.box), IdentityOf(ReductionOf(layout.sbp)));
    }
  }
  return shards;
}

absl::StatusOr<Array> GatherReference(const Layout& layout, const Shape& shape,
                                      const std::vector<Array>& shards) {
  SLUICE_CHECK_EQ(shards.size(), layout.mesh.num_devices());
  std::vector<Piece> pieces;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::vector<int64_t> at = layout.mesh.Coordinates(static_cast<int64_t>(i));
    Piece piece = {PlacementAt(layout.mesh, layout.sbp, shape, at).box, shards[i]};
    if (piece.values.shape != ShapeOf(piece.box)) {
      return absl::InvalidArgumentError(absl::StrCat("shard ", i, ": expected shape ",
                                                     ShapeOf(piece.box).ToString(), ", got ",
                                                     piece.values.shape.ToString()));
    }
    pieces.push_back(std::move(piece));
  }
  for (size_t axis = layout.sbp.size(); axis-- > 0;) {  // innermost first
    const size_t size = layout.mesh.axes()[axis].size;
    std::vector<Piece> joined;
    for (size_t first = 0; first < pieces.size(); first += size) {
      const std::vector<Piece> group(pieces.begin() + first, pieces.begin() + first + size);
      absl::StatusOr<Piece> piece = Join(group, layout.sbp[axis]);
      if (!piece.ok()) return piece.status();
      joined.push_back(*std::move(piece));
    }
    pieces = std::move(joined);
  }
  return std::move(pieces[0].values);
}

}  // namespace sluice
