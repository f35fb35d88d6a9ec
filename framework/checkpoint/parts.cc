#include "framework/checkpoint/parts.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/checkpoint/folder.h"
#include "framework/checkpoint/saved_digests.h"

namespace sluice {
namespace {

// The first thing that two maps of texts do not have alike: "lr: expected 0.1, got none", or "".
std::string Difference(const std::map<std::string, std::string>& expected,
                       const std::map<std::string, std::string>& got) {
  const auto text = [](const auto& map, const std::string& key) {
    const auto found = map.find(key);
    return found == map.end() ? std::string("none") : found->second;
  };
  for (const auto* map : {&expected, &got}) {
    for (const auto& [key, value] : *map) {
      const std::string left = text(expected, key), right = text(got, key);
      if (left != right) return absl::StrCat(key, ": expected ", left, ", got ", right);
    }
  }
  return "";
}

// The same of two states of a run.
std::string Difference(const CheckpointMeta& expected, const CheckpointMeta& got) {
  const auto described = [](const CheckpointMeta& meta) {
    std::map<std::string, std::string> texts = {{"step", absl::StrCat(meta.step)},
                                                {"seed", absl::StrCat(meta.seed)},
                                                {"samples", absl::StrCat(meta.samples)}};
    for (const auto& [key, value] : meta.options) texts[absl::StrCat("option ", key)] = value;
    for (const auto& [key, data] : meta.data) {
      texts[absl::StrCat("data ", key)] =
          absl::StrCat(data.bytes, " bytes of digest ", data.digest);
    }
    return texts;
  };
  return Difference(described(expected), described(got));
}

// One part's manifest, of this state and of these parts.
absl::StatusOr<Manifest> ReadPart(const std::string& dir, const CheckpointMeta& meta,
                                  const CheckpointPart& part) {
  const std::string name = PartManifest(part.part, part.parts);
  const std::string file = absl::StrCat(dir, "/", name);
  absl::StatusOr<Manifest> manifest = ReadManifest(file);
  if (absl::IsNotFound(manifest.status())) {
    return absl::NotFoundError(absl::StrCat(dir, ": part ", part.part + 1, " of ", part.parts,
                                            " is missing: expected ", name, ", got none"));
  }
  RETURN_IF_ERROR(manifest.status());
  if (manifest->part != part.part || manifest->parts != part.parts) {
    return absl::DataLossError(
        absl::StrCat(file, ": expected part ", part.part + 1, " of ", part.parts, ", got ",
                     manifest->part ? absl::StrCat("part ", *manifest->part + 1) : "a whole one",
                     " of ", manifest->parts));
  }
  const std::string difference = Difference(meta, manifest->meta);
  if (!difference.empty()) {
    return absl::DataLossError(absl::StrCat(file, ": of another state: ", difference));
  }
  return manifest;
}

absl::StatusOr<Manifest> JoinParts(const std::string& dir, const CheckpointMeta& meta,
                                   int32_t parts) {
  if (parts < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("checkpoint: expected at least one part, got ", parts));
  }
  Manifest joined;
  for (int32_t part = 0; part < parts; ++part) {
    ASSIGN_OR_RETURN(Manifest manifest, ReadPart(dir, meta, {part, parts}));
    if (part == 0) {
      joined = std::move(manifest);
      joined.part.reset();
      continue;
    }
    const std::string difference = Difference(joined.types, manifest.types);
    if (!difference.empty()) {
      return absl::DataLossError(
          absl::StrCat(dir, "/", PartManifest(part, parts),
                       ": of other tensors than the first part: ", difference));
    }
    for (auto& [name, boxes] : manifest.boxes) {
      std::vector<StoredBox>& all = joined.boxes.at(name);
      all.insert(all.end(), std::make_move_iterator(boxes.begin()),
                 std::make_move_iterator(boxes.end()));
    }
  }
  const absl::Status status = CheckCover(joined);
  if (!status.ok()) return AddContext(status, dir);
  return joined;
}

// Makes what stands in the folder of parts a checkpoint; their manifests go, as theirs is in it.
absl::Status Join(const std::string& dir, const CheckpointMeta& meta, int32_t parts,
                  FileFaults* faults) {
  ASSIGN_OR_RETURN(const Manifest manifest, JoinParts(dir, meta, parts));
  RETURN_IF_ERROR(OpenTensors(dir, manifest).status());
  RETURN_IF_ERROR(WriteManifest(absl::StrCat(dir, "/", kManifest), manifest, faults));
  for (int32_t part = 0; part < parts; ++part) {
    RETURN_IF_ERROR(RemoveTree(absl::StrCat(dir, "/", PartManifest(part, parts)), faults));
  }
  return SyncDirectory(dir, faults);
}

}  // namespace

absl::Status BeginCheckpoint(const std::string& dir, const CheckpointMeta& meta,
                             FileFaults* faults) {
  ASSIGN_OR_RETURN(const std::string path, CheckpointPath(dir, meta));
  RETURN_IF_ERROR(CreateDirectories(dir, faults));
  return BeginFolder(path, faults);
}

absl::Status WriteCheckpointPart(const std::string& dir, const CheckpointMeta& meta,
                                 const CheckpointPart& part, absl::Span<const TensorEntry> tensors,
                                 absl::Span<const BoxEntry> boxes, const BoxSource& source,
                                 FileFaults* faults) {
  ASSIGN_OR_RETURN(const std::string path, CheckpointPath(dir, meta));
  if (part.part < 0 || part.part >= part.parts) {
    return absl::InvalidArgumentError(absl::StrCat("checkpoint: expected one of ", part.parts,
                                                   " parts, from 0, got ", part.part));
  }
  Manifest manifest;
  manifest.meta = meta;
  manifest.parts = part.parts;
  manifest.part = part.part;
  std::map<std::string, const TensorEntry*> known;
  for (const TensorEntry& tensor : tensors) {
    known[tensor.name] = &tensor;
    manifest.types[tensor.name] = PrintType(tensor.dtype, tensor.shape);
    manifest.boxes[tensor.name];
  }
  std::vector<TensorEntry> entries;
  std::vector<const BoxEntry*> stored;  // by entry
  for (const BoxEntry& each : boxes) {
    const auto tensor = known.find(each.tensor);
    if (tensor == known.end() || !IsInside(each.box, tensor->second->shape)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "checkpoint: tensor ", each.tensor, ": expected a box inside ",
          tensor == known.end() ? "a tensor of the checkpoint" : manifest.types[each.tensor],
          ", got ", BoxToString(each.box)));
    }
    if (Volume(each.box) == 0) continue;
    entries.push_back(
        {StoredName(each.tensor, each.box), tensor->second->dtype, ShapeOf(each.box)});
    stored.push_back(&each);
  }
  size_t next = 0;  // the source is asked once for each, in order
  const auto values = [&](const TensorEntry&) { return source(*stored[next++]); };
  const std::string folder = absl::StrCat(path, kUnfinished, "/");
  SavedDigests saved;
  RETURN_IF_ERROR(WriteSafetensors(folder + TensorsFile(part.part, part.parts), entries, {}, values,
                                   faults, saved.Observer()));
  const std::vector<std::string> digests = std::move(saved).TakeDigests();
  for (size_t i = 0; i < stored.size(); ++i) {
    manifest.boxes[stored[i]->tensor].push_back({part.part, stored[i]->box, digests[i]});
  }
  // Behind it: whoever finds this has the other.
  RETURN_IF_ERROR(WriteManifest(folder + PartManifest(part.part, part.parts), manifest, faults));
  return SyncDirectory(path + kUnfinished, faults);
}

absl::StatusOr<std::string> CommitCheckpoint(const std::string& dir, const CheckpointMeta& meta,
                                             int32_t parts, FileFaults* faults) {
  ASSIGN_OR_RETURN(const std::string path, CheckpointPath(dir, meta));
  const absl::Status joined = Join(path + kUnfinished, meta, parts, faults);
  if (!joined.ok()) {
    RemoveTree(path + kUnfinished, faults).IgnoreError();  // the first error is the one to tell
    return joined;
  }
  RETURN_IF_ERROR(CommitFolder(path, faults));
  return path;
}

}  // namespace sluice
