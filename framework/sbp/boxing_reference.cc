// What layouts and boxings mean, in plain loops.
#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/sbp/boxing.h"

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

// Buffers of a boxing that runs: the values of all pieces, one after another.
class Execution {
 public:
  explicit Execution(const Boxing& boxing)
      : boxing_(boxing), values_(boxing.buffers.size()), written_(boxing.buffers.size()) {}

  void Set(int buffer, const Array& array) {
    SLUICE_CHECK_EQ(array.values.size(), Size(buffer)) << "values of a source";
    values_[buffer] = array.values;
    written_[buffer] = true;
  }

  Array Get(int buffer) const {
    SLUICE_CHECK(written_[buffer] && boxing_.buffers[buffer].pieces.size() == 1);
    Array array(ShapeOf(boxing_.buffers[buffer].pieces[0]));
    array.values = values_[buffer];
    return array;
  }

  void Run(const BoxingStep& step) {
    std::vector<std::vector<double>> results;
    for (const BoxingWrite& write : step.writes) results.push_back(Evaluate(write));
    for (size_t i = 0; i < results.size(); ++i) {
      const int buffer = step.writes[i].buffer;
      SLUICE_CHECK(!written_[buffer]) << "buffer " << buffer << " is written twice";
      written_[buffer] = true;
      values_[buffer] = std::move(results[i]);
    }
  }

 private:
  int64_t Size(int buffer) const {
    int64_t size = 0;
    for (const Box& piece : boxing_.buffers[buffer].pieces) size += Volume(piece);
    return size;
  }

  // The piece that contains a box, and where its values begin.
  std::pair<const Box*, int64_t> Find(int buffer, const Box& box) const {
    int64_t offset = 0;
    for (const Box& piece : boxing_.buffers[buffer].pieces) {
      if (Intersect(piece, box) == box) return {&piece, offset};
      offset += Volume(piece);
    }
    SLUICE_CHECK(false) << "buffer " << buffer << " has no piece around " << BoxToString(box);
    return {nullptr, 0};
  }

  std::vector<double> Read(int buffer, const Box& box) const {
    SLUICE_CHECK(written_[buffer]) << "buffer " << buffer << " is read before it is written";
    const std::pair<const Box*, int64_t> found = Find(buffer, box);
    const double* begin = values_[buffer].data() + found.second;
    std::vector<double> result;
    ForEachRow(*found.first, box, [&](int64_t offset, int64_t length) {
      result.insert(result.end(), begin + offset, begin + offset + length);
    });
    return result;
  }

  std::vector<double> Fold(const BoxingRegion& region) const {
    std::vector<std::vector<double>> stack;
    for (int entry : region.fold) {
      if (entry >= 0) {
        stack.push_back(Read(region.sources[entry], region.box));
        continue;
      }
      SLUICE_CHECK(stack.size() > 1);
      const std::vector<double> right = std::move(stack.back());
      stack.pop_back();
      for (size_t i = 0; i < right.size(); ++i) {
        stack.back()[i] = Reduce(boxing_.reduction, stack.back()[i], right[i]);
      }
    }
    SLUICE_CHECK_EQ(stack.size(), 1);
    return std::move(stack[0]);
  }

  std::vector<double> Evaluate(const BoxingWrite& write) const {
    const int64_t size = Size(write.buffer);
    std::vector<double> values(size, IdentityOf(boxing_.reduction));
    int64_t covered = 0;
    for (const BoxingRegion& region : write.regions) {
      const std::vector<double> folded = Fold(region);
      covered += static_cast<int64_t>(folded.size());
      const std::pair<const Box*, int64_t> found = Find(write.buffer, region.box);
      int64_t at = 0;
      ForEachRow(*found.first, region.box, [&](int64_t offset, int64_t length) {
        std::copy_n(folded.begin() + at, length, values.begin() + found.second + offset);
        at += length;
      });
    }
    SLUICE_CHECK(write.fill_identity ? covered < size : covered == size)
        << "regions cover " << covered << " of " << size << " elements";
    return values;
  }

  const Boxing& boxing_;
  std::vector<std::vector<double>> values_;
  std::vector<bool> written_;
};

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

std::vector<Array> ExecuteBoxing(const Boxing& boxing, const std::vector<Array>& sources) {
  SLUICE_CHECK_EQ(sources.size(), boxing.sources.size());
  Execution execution(boxing);
  for (size_t i = 0; i < sources.size(); ++i) execution.Set(boxing.sources[i], sources[i]);
  for (const BoxingStep& step : boxing.steps) execution.Run(step);
  std::vector<Array> results;
  for (int buffer : boxing.destinations) results.push_back(execution.Get(buffer));
  return results;
}

}  // namespace sluice
