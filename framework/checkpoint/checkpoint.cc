#include "framework/checkpoint/checkpoint.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "framework/base/hash.h"
#include "framework/base/status.h"
#include "framework/checkpoint/box_copy.h"
#include "framework/checkpoint/folder.h"
#include "framework/checkpoint/saved_digests.h"

namespace sluice {
namespace {

constexpr char kDamaged[] = ".damaged";
constexpr int64_t kPiece = 1 << 20;  // bytes that are read at a time; whole elements of any type

absl::Status WriteInto(const std::string& dir, const CheckpointMeta& meta,
                       absl::Span<const TensorEntry> tensors, const TensorSource& source,
                       FileFaults* faults) {
  SavedDigests saved;
  RETURN_IF_ERROR(WriteSafetensors(absl::StrCat(dir, "/", TensorsFile(0, 0)), tensors, {}, source,
                                   faults, saved.Observer()));
  const std::vector<std::string> digests = std::move(saved).TakeDigests();
  Manifest manifest;
  manifest.meta = meta;
  for (size_t i = 0; i < tensors.size(); ++i) {
    manifest.types[tensors[i].name] = PrintType(tensors[i].dtype, tensors[i].shape);
    manifest.digests[tensors[i].name] = digests[i];
  }
  RETURN_IF_ERROR(WriteManifest(absl::StrCat(dir, "/", kManifest), manifest, faults));
  return SyncDirectory(dir, faults);
}

// The step of a directory's name, or -1.
int64_t StepOf(absl::string_view name) {
  int64_t step = -1;
  if (!absl::StartsWith(name, "step-") || !absl::SimpleAtoi(name.substr(5), &step)) return -1;
  return step;
}

bool IsUnfinished(absl::string_view name) {
  return absl::ConsumeSuffix(&name, kUnfinished) && StepOf(name) >= 0;
}

// (step, name) of every checkpoint, ascending.
absl::StatusOr<std::vector<std::pair<int64_t, std::string>>> Checkpoints(const std::string& dir) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(dir));
  std::vector<std::pair<int64_t, std::string>> found;
  for (const std::string& name : names) {
    if (StepOf(name) >= 0) found.emplace_back(StepOf(name), name);
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Is it known that a checkpoint is not as it was written? Files that could not be read may be
// whole: permissions, a failing disk and too many open files are no word on what they hold.
bool IsDamage(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsNotFound(status);  // of a file in its folder
}

absl::Status NoCheckpoint(const std::string& dir) {
  return absl::NotFoundError(absl::StrCat(dir, ": no checkpoint (step-...)"));
}

}  // namespace

absl::StatusOr<std::string> SaveCheckpoint(const std::string& dir, const CheckpointMeta& meta,
                                           absl::Span<const TensorEntry> tensors,
                                           const TensorSource& source, FileFaults* faults) {
  ASSIGN_OR_RETURN(const std::string path, CheckpointPath(dir, meta));
  RETURN_IF_ERROR(CreateDirectories(dir, faults));
  RETURN_IF_ERROR(BeginFolder(path, faults));
  const absl::Status status = WriteInto(path + kUnfinished, meta, tensors, source, faults);
  if (!status.ok()) {
    RemoveTree(path + kUnfinished, faults).IgnoreError();  // the first error is the one to tell
    return status;
  }
  RETURN_IF_ERROR(CommitFolder(path, faults));
  return path;
}

absl::StatusOr<Checkpoint> Checkpoint::Load(const std::string& path) {
  const std::string file = absl::StrCat(path, "/", kManifest);
  ASSIGN_OR_RETURN(Manifest manifest, ReadManifest(file));
  if (manifest.part) {
    return absl::DataLossError(absl::StrCat(file, ": expected the manifest of all parts, got part ",
                                            *manifest.part + 1, " of ", manifest.parts));
  }
  Checkpoint checkpoint;
  checkpoint.path_ = path;
  checkpoint.parts_ = manifest.parts;
  ASSIGN_OR_RETURN(checkpoint.files_, OpenTensors(path, manifest));
  checkpoint.meta_ = std::move(manifest.meta);
  checkpoint.digest_ = std::move(manifest.digest);
  if (manifest.parts == 0) {
    checkpoint.tensors_ = checkpoint.files_[0].entries();
    for (const TensorEntry& entry : checkpoint.tensors_) {
      manifest.boxes[entry.name] = {{0, WholeBox(entry.shape), manifest.digests.at(entry.name)}};
    }
  } else {
    for (const auto& [name, type] : manifest.types) {
      ASSIGN_OR_RETURN(TensorEntry entry, ParseType(name, type));
      checkpoint.tensors_.push_back(std::move(entry));
    }
  }
  for (size_t i = 0; i < checkpoint.tensors_.size(); ++i) {
    const std::string& name = checkpoint.tensors_[i].name;
    checkpoint.stored_[name] = {static_cast<int>(i), std::move(manifest.boxes.at(name))};
  }
  return checkpoint;
}

absl::StatusOr<const Checkpoint::Stored*> Checkpoint::Find(absl::string_view name) const {
  const auto found = stored_.find(name);
  if (found != stored_.end()) return &found->second;
  return absl::NotFoundError(absl::StrCat(path_, ": no tensor ", name));
}

absl::StatusOr<const Checkpoint::Stored*> Checkpoint::FindAround(absl::string_view name,
                                                                 const Box& box) const {
  ASSIGN_OR_RETURN(const Stored* stored, Find(name));
  if (IsInside(box, tensors_[stored->index].shape)) return stored;
  return absl::InvalidArgumentError(
      absl::StrCat(path_, ": tensor ", name, ": expected a box inside ",
                   tensors_[stored->index].shape.ToString(), ", got ", BoxToString(box)));
}

absl::Status Checkpoint::ReadStored(const TensorEntry& tensor, const StoredBox& stored,
                                    const Box* box, HostTensor* value) const {
  const bool whole = parts_ == 0;
  const std::string name = whole ? tensor.name : StoredName(tensor.name, stored.box);
  const int64_t element = SizeOf(tensor.dtype), bytes = Volume(stored.box) * element;
  std::optional<BoxCopy> copy;
  if (box != nullptr) copy.emplace(stored.box, *box, element, value->bytes.data());
  std::vector<std::byte> piece(std::min(bytes, kPiece));
  StableByteHasher digest;
  for (int64_t from = 0; from < bytes; from += kPiece) {
    const absl::Span<std::byte> some =
        absl::MakeSpan(piece).subspan(0, std::min(kPiece, bytes - from));
    RETURN_IF_ERROR(files_[stored.part].ReadBytes(name, from, some));
    digest.Add(some.data(), some.size());
    if (copy) copy->Add(some);
  }
  const std::string got = HashText(digest.digest());
  if (got == stored.digest) return absl::OkStatus();
  const std::string where =
      whole ? absl::StrCat(path_, ": tensor ", tensor.name)
            : absl::StrCat(path_, "/", TensorsFile(stored.part, parts_), ": tensor ", tensor.name,
                           ", box ", BoxToString(stored.box), ",");
  return absl::DataLossError(
      absl::StrCat(where, " is damaged: expected digest ", stored.digest, ", got ", got));
}

absl::StatusOr<HostTensor> Checkpoint::Read(absl::string_view name) const {
  ASSIGN_OR_RETURN(const Stored* stored, Find(name));
  return ReadBox(name, WholeBox(tensors_[stored->index].shape));
}

absl::StatusOr<HostTensor> Checkpoint::ReadBox(absl::string_view name, const Box& box) const {
  ASSIGN_OR_RETURN(const Stored* stored, FindAround(name, box));
  const TensorEntry& tensor = tensors_[stored->index];
  HostTensor value(tensor.dtype, ShapeOf(box));
  for (const StoredBox& each : stored->boxes) {
    if (Volume(Intersect(each.box, box)) == 0) continue;
    RETURN_IF_ERROR(ReadStored(tensor, each, &box, &value));
  }
  return value;
}

absl::Status Checkpoint::VerifyBoxes(absl::string_view name, absl::Span<const Box> boxes) const {
  for (const Box& box : boxes) RETURN_IF_ERROR(FindAround(name, box).status());
  ASSIGN_OR_RETURN(const Stored* stored, Find(name));
  for (const StoredBox& each : stored->boxes) {
    const bool met = std::any_of(boxes.begin(), boxes.end(), [&](const Box& box) {
      return Volume(Intersect(each.box, box)) > 0;
    });
    if (met) RETURN_IF_ERROR(ReadStored(tensors_[stored->index], each, nullptr, nullptr));
  }
  return absl::OkStatus();
}

absl::Status Checkpoint::Verify() const {
  for (const TensorEntry& tensor : tensors_) {
    for (const StoredBox& each : stored_.find(tensor.name)->second.boxes) {
      RETURN_IF_ERROR(ReadStored(tensor, each, nullptr, nullptr));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> LatestCheckpoint(const std::string& dir) {
  ASSIGN_OR_RETURN(const auto found, Checkpoints(dir));
  if (found.empty()) return NoCheckpoint(dir);
  return absl::StrCat(dir, "/", found.back().second);
}

absl::StatusOr<std::string> LatestGoodCheckpoint(const std::string& dir,
                                                 std::vector<DamagedCheckpoint>* damaged) {
  ASSIGN_OR_RETURN(const auto found, Checkpoints(dir));
  if (found.empty()) return NoCheckpoint(dir);
  damaged->clear();
  for (auto at = found.rbegin(); at != found.rend(); ++at) {
    const std::string path = absl::StrCat(dir, "/", at->second);
    const absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Load(path);
    const absl::Status status = checkpoint.ok() ? checkpoint->Verify() : checkpoint.status();
    if (status.ok()) return path;
    if (!IsDamage(status)) {
      damaged->clear();
      return status;
    }
    damaged->push_back({path, status});
  }
  return absl::DataLossError(damaged->front().status.message());
}

absl::Status SetCheckpointAside(const std::string& path) {
  const std::string aside = path + kDamaged;
  RETURN_IF_ERROR(RemoveTree(aside));
  return Rename(path, aside);
}

absl::StatusOr<std::string> BestCheckpoint(const std::string& dir, int64_t newest,
                                           const BestBy& best) {
  ASSIGN_OR_RETURN(const auto found, Checkpoints(dir));
  std::optional<std::pair<double, std::string>> leader;  // its figure, and its path
  for (const auto& [step, name] : found) {
    const std::string path = absl::StrCat(dir, "/", name);
    // One that cannot be read is no candidate; whoever loads it is told why.
    const absl::StatusOr<Manifest> manifest = ReadManifest(absl::StrCat(path, "/", kManifest));
    if (step > newest || !manifest.ok()) continue;
    const auto figure = manifest->meta.evaluation.find(best.metric);
    if (figure == manifest->meta.evaluation.end()) continue;
    const double value = figure->second;
    const bool leads =
        !leader || (best.larger_is_better ? value > leader->first : value < leader->first);
    if (leads) leader.emplace(value, path);
  }
  if (leader) return leader->second;
  return absl::NotFoundError(absl::StrCat(dir, ": expected a checkpoint that was evaluated by ",
                                          best.metric, ", got none"));
}

// They lose their names first, and for good, so that a removal that is cut short leaves no half of
// one that looks whole.
absl::Status PruneCheckpoints(const std::string& dir, int64_t newest, int64_t keep,
                              const BestBy& best, FileFaults* faults) {
  ASSIGN_OR_RETURN(auto found, Checkpoints(dir));
  found.erase(std::find_if(found.begin(), found.end(),
                           [newest](const auto& one) { return one.first > newest; }),
              found.end());
  const int64_t drop = static_cast<int64_t>(found.size()) - std::max<int64_t>(keep, 1);
  std::string stays;
  if (drop > 0 && !best.metric.empty()) {
    const absl::StatusOr<std::string> leader = BestCheckpoint(dir, newest, best);
    if (leader.ok()) stays = *leader;
  }
  for (int64_t i = 0; i < drop; ++i) {
    const std::string path = absl::StrCat(dir, "/", found[i].second);
    if (path == stays) continue;
    RETURN_IF_ERROR(RemoveTree(path + kUnfinished, faults));
    RETURN_IF_ERROR(Rename(path, path + kUnfinished, faults));
  }
  if (drop > 0) RETURN_IF_ERROR(SyncDirectory(dir, faults));
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(dir));
  for (const std::string& name : names) {
    if (IsUnfinished(name)) RETURN_IF_ERROR(RemoveTree(absl::StrCat(dir, "/", name), faults));
  }
  return absl::OkStatus();
}

}  // namespace sluice
