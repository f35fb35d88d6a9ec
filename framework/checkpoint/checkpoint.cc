#include "framework/checkpoint/checkpoint.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "framework/base/hash.h"
#include "framework/base/status.h"
#include "framework/checkpoint/manifest.h"

namespace sluice {
namespace {

constexpr char kManifest[] = "manifest.json";
constexpr char kTensors[] = "tensors.safetensors";
constexpr char kUnfinished[] = ".tmp";
constexpr char kDamaged[] = ".damaged";
constexpr int64_t kManifestLimit = 100'000'000;

std::string DigestOf(const HostTensor& tensor) {
  return HashText(StableHash(tensor.bytes.data(), tensor.bytes.size()));
}

std::string TypeOf(const TensorEntry& entry) {
  return absl::StrCat(DTypeName(entry.dtype), entry.shape.ToString());
}

absl::Status WriteInto(const std::string& dir, const CheckpointMeta& meta,
                       absl::Span<const TensorEntry> tensors, const TensorSource& source,
                       FileFaults* faults) {
  Manifest manifest{meta, {}, {}};
  const auto digesting = [&](const TensorEntry& entry) {
    absl::StatusOr<HostTensor> value = source(entry);
    if (value.ok()) {
      manifest.types[entry.name] = TypeOf(entry);
      manifest.digests[entry.name] = DigestOf(*value);
    }
    return value;
  };
  RETURN_IF_ERROR(
      WriteSafetensors(absl::StrCat(dir, "/", kTensors), tensors, {}, digesting, faults));
  ASSIGN_OR_RETURN(FileWriter file, FileWriter::Create(absl::StrCat(dir, "/", kManifest), faults));
  RETURN_IF_ERROR(file.Append(PrintManifest(manifest)));
  RETURN_IF_ERROR(file.Close());
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

absl::Status NoCheckpoint(const std::string& dir) {
  return absl::NotFoundError(absl::StrCat(dir, ": no checkpoint (step-...)"));
}

}  // namespace

absl::StatusOr<std::string> SaveCheckpoint(const std::string& dir, const CheckpointMeta& meta,
                                           absl::Span<const TensorEntry> tensors,
                                           const TensorSource& source, FileFaults* faults) {
  if (meta.step < 0 || meta.samples < 0) {
    return absl::InvalidArgumentError(absl::StrCat("checkpoint: step ", meta.step, ", samples ",
                                                   meta.samples, ": expected none below 0"));
  }
  const std::string path = absl::StrCat(dir, "/step-", absl::StrFormat("%06d", meta.step));
  const std::string unfinished = path + kUnfinished;
  RETURN_IF_ERROR(CreateDirectories(dir, faults));
  RETURN_IF_ERROR(RemoveTree(unfinished, faults));
  absl::Status status = CreateDirectories(unfinished, faults);
  if (status.ok()) status = WriteInto(unfinished, meta, tensors, source, faults);
  if (status.ok()) status = ReplaceDirectory(unfinished, path, faults);
  if (!status.ok()) {
    RemoveTree(unfinished, faults).IgnoreError();  // the first error is the one to tell
    return status;
  }
  // Where this fails, nobody knows which of two of this step a crash would leave: both stay.
  RETURN_IF_ERROR(SyncDirectory(dir, faults));
  RemoveTree(unfinished, faults).IgnoreError();  // the older one of this step; pruning tries again
  return path;
}

absl::StatusOr<Checkpoint> Checkpoint::Load(const std::string& path) {
  const std::string file = absl::StrCat(path, "/", kManifest);
  ASSIGN_OR_RETURN(const std::string text, ReadText(file, kManifestLimit));
  ASSIGN_OR_RETURN(Manifest manifest, ParseManifest(text, file));
  ASSIGN_OR_RETURN(SafetensorsReader tensors,
                   SafetensorsReader::Open(absl::StrCat(path, "/", kTensors)));
  Checkpoint checkpoint(std::move(tensors));
  checkpoint.path_ = path;
  checkpoint.meta_ = std::move(manifest.meta);
  for (const TensorEntry& entry : checkpoint.tensors()) {
    const auto type = manifest.types.find(entry.name);
    if (type == manifest.types.end() || type->second != TypeOf(entry)) {
      return absl::DataLossError(
          absl::StrCat(path, ": tensor ", entry.name, ": expected ",
                       type == manifest.types.end() ? "none, by the manifest" : type->second,
                       ", got ", TypeOf(entry)));
    }
  }
  const size_t stored = checkpoint.tensors_.stored().size();
  if (manifest.types.size() != stored || checkpoint.tensors().size() != stored) {
    return absl::DataLossError(absl::StrCat(path, ": expected ", manifest.types.size(),
                                            " tensors of f32, f64, bf16 or i32, got ", stored,
                                            ", and ", checkpoint.tensors().size(), " of these"));
  }
  checkpoint.digests_.insert(manifest.digests.begin(), manifest.digests.end());
  return checkpoint;
}

absl::StatusOr<HostTensor> Checkpoint::Read(absl::string_view name) const {
  ASSIGN_OR_RETURN(HostTensor tensor, tensors_.Read(name));
  const std::string& expected = digests_.find(std::string(name))->second;
  const std::string got = DigestOf(tensor);
  if (got != expected) {
    return absl::DataLossError(absl::StrCat(
        path_, ": tensor ", name, " is damaged: expected digest ", expected, ", got ", got));
  }
  return tensor;
}

absl::Status Checkpoint::Verify() const {
  for (const TensorEntry& entry : tensors()) RETURN_IF_ERROR(Read(entry.name).status());
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
    damaged->push_back({path, status});
  }
  return damaged->front().status;
}

absl::Status SetCheckpointAside(const std::string& path) {
  const std::string aside = path + kDamaged;
  RETURN_IF_ERROR(RemoveTree(aside));
  return Rename(path, aside);
}

// They lose their names first, and for good, so that a removal that is cut short leaves no half of
// one that looks whole.
absl::Status PruneCheckpoints(const std::string& dir, int64_t keep, FileFaults* faults) {
  ASSIGN_OR_RETURN(const auto found, Checkpoints(dir));
  const int64_t drop = static_cast<int64_t>(found.size()) - std::max<int64_t>(keep, 1);
  for (int64_t i = 0; i < drop; ++i) {
    const std::string path = absl::StrCat(dir, "/", found[i].second);
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
