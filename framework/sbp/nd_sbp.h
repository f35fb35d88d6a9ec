// Sbp says how a logical tensor lies along one mesh axis: S(dim) split, B whole copies, P partial
// values that a reduction joins (OneFlow paper, section 3.1). NdSbp holds one per axis, outermost
// first. Pure values; any thread.
#ifndef SLUICE_FRAMEWORK_SBP_ND_SBP_H_
#define SLUICE_FRAMEWORK_SBP_ND_SBP_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/sbp/mesh.h"
#include "framework/tensor/array.h"
#include "framework/tensor/shard.h"

namespace sluice {

struct Sbp {
  enum Kind : uint8_t { kBroadcast, kSplit, kPartial };
  Kind kind = kBroadcast;
  int8_t dim = 0;                          // of kSplit
  Reduction reduction = Reduction::kNone;  // of kPartial

  static Sbp B() { return {}; }
  static Sbp S(int dim) { return {kSplit, static_cast<int8_t>(dim), Reduction::kNone}; }
  static Sbp P(Reduction reduction = Reduction::kSum) { return {kPartial, 0, reduction}; }
  bool is_split() const { return kind == kSplit; }
  bool is_broadcast() const { return kind == kBroadcast; }
  bool is_partial() const { return kind == kPartial; }
  friend bool operator==(const Sbp&, const Sbp&) = default;
  friend auto operator<=>(const Sbp&, const Sbp&) = default;
};

std::string ToString(Sbp sbp);  // "B", "S1", "P(sum)", "P(max)", "P(min)"
absl::StatusOr<Sbp> ParseSbp(absl::string_view text);

// One Sbp per axis of a mesh that has no stage axis; at most one kind of P.
using NdSbp = absl::InlinedVector<Sbp, 4>;

NdSbp AllBroadcast(const Mesh& mesh);
std::string ToString(const NdSbp& sbp, const Mesh& mesh);  // "data:S0 model:B"
// "B", "", or entries "axis:sbp"; axes not named are B.
absl::StatusOr<NdSbp> ParseNdSbp(absl::string_view text, const Mesh& mesh);
// An error unless `sbp` suits a tensor of `shape`: one entry an axis, dims within the rank, one
// kind of P.
absl::Status CheckNdSbp(const NdSbp& sbp, const Mesh& mesh, const Shape& shape);
Reduction ReductionOf(const NdSbp& sbp);  // kNone where nothing is P

// What a user says of a tensor: an Sbp on some named axes, e.g. "model:S1". Axes not in the mesh
// say nothing. "B" alone binds nothing.
struct SbpAnnotation {
  std::vector<std::pair<std::string, Sbp>> entries;
  static absl::StatusOr<SbpAnnotation> Parse(absl::string_view text);
  const Sbp* Find(absl::string_view axis) const;  // nullptr where nothing is said
  std::string ToString() const;
  bool empty() const { return entries.empty(); }
};

// The box of a tensor that the device at `coordinates` (one per axis of the NdSbp's mesh) holds,
// cut outermost axis first, and the index of its partial, the outermost P axis most significant.
struct Placement {
  Box box;
  int64_t partial = 0;
};
Placement PlacementAt(const Mesh& mesh, const NdSbp& sbp, const Shape& shape,
                      const std::vector<int64_t>& coordinates);
// The largest number of elements that one device holds.
int64_t LargestShard(const Mesh& mesh, const NdSbp& sbp, const Shape& shape);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_SBP_ND_SBP_H_
