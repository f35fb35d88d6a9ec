#include "framework/sbp/phase_testing.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/log.h"

namespace sluice {
namespace {

// The mesh whose devices the sources of a step are.
const Mesh& MeshRead(const BoxingPhase& phase, size_t step) {
  return step == 0 ? phase.from.mesh : phase.to.mesh;
}

// Where the rows of a box lie in a buffer of pieces; false if no piece holds it.
template <typename Fn>
bool ForEachRowOf(const std::vector<Box>& pieces, const Box& box, const Fn& fn) {
  int64_t base = 0;
  for (const Box& piece : pieces) {
    if (piece.size() == box.size() && Intersect(piece, box) == box) {
      ForEachRow(piece, box, [&](int64_t offset, int64_t length) { fn(base + offset, length); });
      return true;
    }
    base += Volume(piece);
  }
  return false;
}

int64_t VolumeOf(const std::vector<Box>& pieces) {
  int64_t volume = 0;
  for (const Box& piece : pieces) volume += Volume(piece);
  return volume;
}

// What one device reads in one step, counted from its regions.
struct Reads {
  int64_t near = 0, far = 0;
  std::vector<int64_t> devices;  // ascending, once each
};

Reads ReadsOf(const ExpandedPhase& expanded, size_t step, int64_t device, const Machine& machine) {
  const BoxingPhase& phase = expanded.phase;
  const DeviceId mine = phase.to.mesh.devices()[device];
  Reads reads;
  for (const PhaseRegion& region : expanded.writes[device][step].regions) {
    for (const PhaseSource& source : region.sources) {
      const DeviceId other = MeshRead(phase, step).devices()[source.device];
      reads.devices.push_back(source.device);
      if (other == mine) continue;
      const LinkKind link = machine.LinkBetween(other, mine);
      const bool far = link != LinkKind::kProcess && link >= expanded.load.steps[step].links.far;
      (far ? reads.far : reads.near) += Volume(region.box);
    }
  }
  std::sort(reads.devices.begin(), reads.devices.end());
  reads.devices.erase(std::unique(reads.devices.begin(), reads.devices.end()), reads.devices.end());
  return reads;
}

std::string CheckBuffers(const ExpandedPhase& expanded, size_t step, int64_t device) {
  const BoxingPhase& phase = expanded.phase;
  const PhaseWrite& write = expanded.writes[device][step];
  const int after = static_cast<int>(step) + 1;
  if (write.pieces != PhasePieces(phase, expanded.shape, after, device)) return "other pieces";
  const int64_t limit = std::max(LargestShard(phase.from.mesh, phase.from.sbp, expanded.shape),
                                 LargestShard(phase.to.mesh, phase.to.sbp, expanded.shape));
  if (VolumeOf(write.pieces) > limit) return "a buffer is larger than every shard";
  for (const PhaseRegion& region : write.regions) {
    if (Volume(region.box) == 0) return "an empty region";
    if (!ForEachRowOf(write.pieces, region.box, [](int64_t, int64_t) {})) return "a stray region";
    for (const PhaseSource& source : region.sources) {
      const std::vector<Box> held =
          PhasePieces(phase, expanded.shape, static_cast<int>(step), source.device);
      if (!ForEachRowOf(held, region.box, [](int64_t, int64_t) {})) {
        return absl::StrCat("device ", source.device, " does not hold ", BoxToString(region.box));
      }
    }
  }
  return "";
}

std::string CheckReaders(const ExpandedPhase& expanded, size_t step, const Machine& machine) {
  const BoxingPhase& phase = expanded.phase;
  const bool between = step == 0 && !(phase.from.mesh == phase.to.mesh);
  std::map<int64_t, std::vector<int64_t>> read_by;
  for (int64_t d = 0; d < phase.to.mesh.num_devices(); ++d) {
    for (int64_t source : ReadsOf(expanded, step, d, machine).devices) {
      if (between || source != d) read_by[source].push_back(d);
    }
  }
  for (int64_t d = 0; d < MeshRead(phase, step).num_devices(); ++d) {
    const std::vector<int64_t>& said = expanded.readers[d][step];
    if (said != read_by[d]) {
      return absl::StrCat("device ", d, " is read by {", absl::StrJoin(read_by[d], " "),
                          "}, says {", absl::StrJoin(said, " "), "}");
    }
  }
  return "";
}

std::string CheckLoad(const ExpandedPhase& expanded, const Machine& machine) {
  const PhaseLoad& load = expanded.load;
  if (load.steps.size() != expanded.writes[0].size()) return "another number of steps";
  int64_t near = 0, far = 0;
  for (size_t s = 0; s < load.steps.size(); ++s) {
    int64_t most_near = 0, most_far = 0, most = 0, messages = 0;
    for (int64_t d = 0; d < expanded.phase.to.mesh.num_devices(); ++d) {
      const Reads reads = ReadsOf(expanded, s, d, machine);
      near += reads.near, far += reads.far;
      most_near = std::max(most_near, reads.near), most_far = std::max(most_far, reads.far);
      most = std::max(most, reads.near + reads.far);
      if (reads.near + reads.far > 0) {
        messages = std::max(messages, static_cast<int64_t>(reads.devices.size()));
      }
    }
    const PhaseStepLoad& said = load.steps[s];
    const std::string ports = absl::StrCat("step ", s, " brings ", most_near, "+", most_far,
                                           " to the busiest, says ", said.near, "+", said.far);
    if (load.exact_links && load.exact_bytes) {
      if (most_near != said.near || most_far != said.far) return ports;
    } else if (most > said.near + said.far || most_far > said.far) {
      return ports;
    }
    if (messages > said.messages + 1) {  // one of them may be the device itself
      return absl::StrCat("step ", s, " reads ", messages, " devices, says ", said.messages);
    }
  }
  const std::string bytes =
      absl::StrCat("moves ", near, "+", far, ", says ", load.near, "+", load.far);
  const int64_t moved = near + far, says = load.near + load.far;
  if (load.exact_bytes ? moved != says : moved > says) return bytes;
  if (load.exact_links && load.exact_bytes ? far != load.far : far > load.far) return bytes;
  return "";
}

// Values of all devices' buffers between two steps.
class Run {
 public:
  explicit Run(const ExpandedPhase& expanded) : expanded_(expanded) {
    const Reduction partial = ReductionOf(expanded.phase.from.sbp);
    reduction_ = partial != Reduction::kNone ? partial : ReductionOf(expanded.phase.to.sbp);
  }

  std::vector<Array> Steps(const std::vector<Array>& sources) {
    std::vector<std::vector<double>> held;
    for (const Array& source : sources) held.push_back(source.values);
    for (size_t s = 0; s < expanded_.writes[0].size(); ++s) {
      std::vector<std::vector<double>> written;
      for (const std::vector<PhaseWrite>& writes : expanded_.writes) {
        written.push_back(Write(writes[s], static_cast<int>(s), held));
      }
      held = std::move(written);
    }
    const Layout& to = expanded_.phase.to;
    std::vector<Array> results;
    for (size_t d = 0; d < held.size(); ++d) {
      const auto at = to.mesh.Coordinates(static_cast<int64_t>(d));
      Array array(ShapeOf(PlacementAt(to.mesh, to.sbp, expanded_.shape, at).box));
      SLUICE_CHECK_EQ(array.values.size(), held[d].size());
      array.values = std::move(held[d]);
      results.push_back(std::move(array));
    }
    return results;
  }

 private:
  std::vector<double> Read(const std::vector<double>& buffer, const std::vector<Box>& pieces,
                           const Box& box) const {
    std::vector<double> values;
    SLUICE_CHECK(ForEachRowOf(pieces, box, [&](int64_t offset, int64_t length) {
      values.insert(values.end(), buffer.begin() + offset, buffer.begin() + offset + length);
    }));
    return values;
  }

  std::vector<double> Fold(const PhaseRegion& region, int step,
                           const std::vector<std::vector<double>>& held) const {
    std::vector<std::vector<double>> stack;
    for (int entry : region.fold) {
      if (entry >= 0) {
        const int64_t device = region.sources[entry].device;
        stack.push_back(Read(
            held[device], PhasePieces(expanded_.phase, expanded_.shape, step, device), region.box));
        continue;
      }
      const std::vector<double> right = std::move(stack.back());
      stack.pop_back();
      for (size_t i = 0; i < right.size(); ++i) {
        stack.back()[i] = Reduce(reduction_, stack.back()[i], right[i]);
      }
    }
    SLUICE_CHECK_EQ(stack.size(), 1);
    return std::move(stack[0]);
  }

  std::vector<double> Write(const PhaseWrite& write, int step,
                            const std::vector<std::vector<double>>& held) const {
    std::vector<double> values(VolumeOf(write.pieces), IdentityOf(reduction_));
    int64_t covered = 0;
    for (const PhaseRegion& region : write.regions) {
      const std::vector<double> folded = Fold(region, step, held);
      auto from = folded.begin();
      ForEachRowOf(write.pieces, region.box, [&](int64_t offset, int64_t length) {
        std::copy_n(from, length, values.begin() + offset);
        from += length;
      });
      covered += Volume(region.box);
    }
    const int64_t size = static_cast<int64_t>(values.size());
    SLUICE_CHECK(write.fill_identity ? covered < size : covered == size)
        << PhaseName(expanded_.phase) << " covers " << covered << " of " << size;
    return values;
  }

  const ExpandedPhase& expanded_;
  Reduction reduction_;
};

}  // namespace

ExpandedPhase Expand(const BoxingPhase& phase, const Shape& shape, const Machine& machine) {
  ExpandedPhase expanded = {phase, shape, {}, {}, {}};
  MeshNodes nodes = NodesOf(phase.to.mesh, machine);
  nodes.slowest = SlowestLink(phase.from.mesh, phase.to.mesh, machine);
  expanded.load = LoadOf(phase, shape, nodes, machine);
  for (int64_t d = 0; d < phase.to.mesh.num_devices(); ++d) {
    expanded.writes.push_back(PhaseSteps(phase, shape, d));
  }
  for (int64_t d = 0; d < phase.from.mesh.num_devices(); ++d) {
    expanded.readers.push_back(PhaseReaders(phase, shape, d));
  }
  return expanded;
}

std::string CheckForm(const ExpandedPhase& expanded, const Machine& machine) {
  for (int64_t d = 0; d < expanded.phase.to.mesh.num_devices(); ++d) {
    for (size_t s = 0; s < expanded.writes[d].size(); ++s) {
      const std::string wrong = CheckBuffers(expanded, s, d);
      if (!wrong.empty()) return absl::StrCat("device ", d, ", step ", s, ": ", wrong);
    }
  }
  for (size_t s = 0; s < expanded.writes[0].size(); ++s) {
    int64_t most = 0;
    for (const auto& writes : expanded.writes) most = std::max(most, VolumeOf(writes[s].pieces));
    const int64_t says = LargestBuffer(expanded.phase, expanded.shape, static_cast<int>(s) + 1);
    if (says != most) {
      return absl::StrCat("step ", s, ": ", most, " elements in a buffer, says ", says);
    }
    const std::string wrong = CheckReaders(expanded, s, machine);
    if (!wrong.empty()) return absl::StrCat("step ", s, ": ", wrong);
  }
  return CheckLoad(expanded, machine);
}

std::vector<Array> Execute(const ExpandedPhase& expanded, const std::vector<Array>& sources) {
  return Run(expanded).Steps(sources);
}

std::string CheckPhases(const std::vector<BoxingPhase>& phases, const Layout& from,
                        const Layout& to, const Shape& shape, const Machine& machine,
                        const std::vector<Array>& shards) {
  std::vector<Array> now = shards;
  for (const BoxingPhase& phase : phases) {
    const ExpandedPhase expanded = Expand(phase, shape, machine);
    const std::string wrong = CheckForm(expanded, machine);
    if (!wrong.empty()) return absl::StrCat(PhaseName(phase), ": ", wrong);
    now = Execute(expanded, now);
  }
  const absl::StatusOr<Array> expected = GatherReference(from, shape, shards);
  SLUICE_CHECK_OK(expected.status());
  const absl::StatusOr<Array> got = GatherReference(to, shape, now);
  if (!got.ok()) return std::string(got.status().message());
  for (size_t i = 0; i < got->values.size(); ++i) {
    if (std::memcmp(&got->values[i], &expected->values[i], sizeof(double)) != 0) {
      return absl::StrCat("element ", i, ": expected ", expected->values[i], ", got ",
                          got->values[i]);
    }
  }
  return "";
}

}  // namespace sluice
