#include "framework/sbp/phase_collective.h"

#include "absl/strings/str_cat.h"
#include "framework/sbp/phase_group.h"

namespace sluice {
namespace {

absl::string_view OpOf(BoxingRecipe recipe) {
  switch (recipe) {
    case BoxingRecipe::kAllGather:
    case BoxingRecipe::kAllGatherTwoLevel:
    case BoxingRecipe::kAllGatherDoubling:
      return "all_gather";
    case BoxingRecipe::kReduceScatter:
    case BoxingRecipe::kReduceScatterTwoLevel:
    case BoxingRecipe::kReduceScatterHalving:
      return "reduce_scatter";
    case BoxingRecipe::kAllReduce:
    case BoxingRecipe::kAllReduceSplit:
    case BoxingRecipe::kAllReduceTwoLevel:
    case BoxingRecipe::kAllReduceHalving:
      return "all_reduce";
    default:
      return "";
  }
}

// Whether the shards of a group are equal runs of what it holds together, one behind the other.
bool AreEqualRuns(const PhaseGroup& group, int dim) {
  for (int d = 0; d < dim; ++d) {
    if (group.base[d].size() != 1) return false;
  }
  return group.base[dim].size() % group.size == 0;
}

// The devices at the first or last place along every axis. Balanced cuts give the first shard one
// more if they are not equal, and so do cuts of cuts; so along every dimension the largest and the
// smallest box of a mesh are those of its first and last device, and what is true of the corners is
// true between them: extents that differ differ by one, and two neighbours are not both multiples
// of a group's size.
std::vector<int64_t> Corners(const Mesh& mesh) {
  std::vector<int64_t> corners = {0};
  int64_t stride = mesh.num_devices();
  for (const MeshAxis& axis : mesh.axes()) {
    stride /= axis.size;
    if (axis.size == 1) continue;
    for (size_t i = corners.size(); i > 0; --i) {
      corners.push_back(corners[i - 1] + (axis.size - 1) * stride);
    }
  }
  return corners;
}

}  // namespace

std::optional<PhaseCollective> CollectiveOf(const BoxingPhase& phase, const Shape& shape) {
  PhaseCollective made;
  made.op = std::string(OpOf(phase.recipe));
  if (made.op.empty()) return std::nullopt;
  const Sbp from = phase.from.sbp[phase.axis], to = phase.to.sbp[phase.axis];
  if (from.is_partial()) made.reduction = from.reduction;
  for (const int64_t device : Corners(phase.to.mesh)) {
    const PhaseGroup group(phase, shape, device);
    if (group.size < 2 || Volume(group.base) == 0) return std::nullopt;
    if (from.is_split() && !AreEqualRuns(group, from.dim)) return std::nullopt;
    if (to.is_split() && !AreEqualRuns(group, to.dim)) return std::nullopt;
  }
  return made;
}

std::vector<int64_t> MembersOfCollective(const BoxingPhase& phase, const Shape& shape,
                                         int64_t place) {
  const PhaseGroup group(phase, shape, place);
  std::vector<int64_t> members;
  for (int64_t i = 0; i < group.size; ++i) members.push_back(group.Peer(i));
  return members;
}

std::string CollectiveName(const PhaseCollective& collective, int axis) {
  return absl::StrCat(collective.op, "[", axis, "]:nccl");
}

}  // namespace sluice
