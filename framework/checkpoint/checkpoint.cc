#include "framework/checkpoint/checkpoint.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/hash.h"
#include "framework/base/status.h"
#include "framework/checkpoint/manifest.h"

namespace sluice {
namespace {

constexpr char kManifest[] = "manifest.json";
constexpr char kTensors[] = "tensors.safetensors";
constexpr char kUnfinished[] = ".tmp";
constexpr int64_t kManifestLimit = 100'000'000;

std::string DigestOf(const HostTensor& tensor) {
  return HashText(StableHash(tensor.bytes.data(), tensor.bytes.size()));
}

std::string TypeOf(const TensorEntry& entry) {
  return absl::StrCat(DTypeName(entry.dtype), entry.shape.ToString());
}

absl::Status WriteInto(const std::string& dir, const CheckpointMeta& meta,
                       absl::Span<const TensorEntry> tensors, const TensorSource& source) {
  Manifest manifest{meta, {}, {}};
  const auto digesting = [&](const TensorEntry& entry) {
    absl::StatusOr<HostTensor> value = source(entry);
    if (value.ok()) {
      manifest.types[entry.name] = TypeOf(entry);
      manifest.digests[entry.name] = DigestOf(*value);
    }
    return value;
  };
  RETURN_IF_ERROR(WriteSafetensors(absl::StrCat(dir, "/", kTensors), tensors, {}, digesting));
  ASSIGN_OR_RETURN(FileWriter file, FileWriter::Create(absl::StrCat(dir, "/", kManifest)));
  RETURN_IF_ERROR(file.Append(PrintManifest(manifest)));
  RETURN_IF_ERROR(file.Close());
  return SyncDirectory(dir);
}

// The step of a directory's name, or -1.
int64_t StepOf(absl::string_view name) {
  int64_t step = -1;
  if (!absl::StartsWith(name, "step-") || !absl::SimpleAtoi(name.substr(5), &step)) return -1;
  return step;
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

}  // namespace

absl::StatusOr<std::string> SaveCheckpoint(const std::string& dir, const CheckpointMeta& meta,
                                           absl::Span<const TensorEntry> tensors,
                                           const TensorSource& source) {
  if (meta.step < 0 || meta.samples < 0) {
    return absl::InvalidArgumentError(absl::StrCat("checkpoint: step ", meta.step, ", samples ",
                                                   meta.samples, ": expected none below 0"));
  }
  const std::string path = absl::StrCat(dir, "/step-", absl::StrFormat("%06d", meta.step));
  const std::string unfinished = path + kUnfinished;
  RETURN_IF_ERROR(CreateDirectories(dir));
  RETURN_IF_ERROR(RemoveTree(unfinished));
  RETURN_IF_ERROR(CreateDirectories(unfinished));
  absl::Status status = WriteInto(unfinished, meta, tensors, source);
  if (status.ok()) status = ReplaceDirectory(unfinished, path);
  if (!status.ok()) {
    RemoveTree(unfinished).IgnoreError();  // the first error is the one to tell
    return status;
  }
  RETURN_IF_ERROR(SyncDirectory(dir));
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
  if (manifest.types.size() != checkpoint.tensors().size()) {
    return absl::DataLossError(absl::StrCat(path, ": expected ", manifest.types.size(),
                                            " tensors, got ", checkpoint.tensors().size()));
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

absl::StatusOr<std::string> LatestCheckpoint(const std::string& dir) {
  ASSIGN_OR_RETURN(const auto found, Checkpoints(dir));
  if (found.empty()) return absl::NotFoundError(absl::StrCat(dir, ": no checkpoint (step-...)"));
  return absl::StrCat(dir, "/", found.back().second);
}

absl::Status PruneCheckpoints(const std::string& dir, int64_t keep) {
  ASSIGN_OR_RETURN(const auto found, Checkpoints(dir));
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(dir));
  const int64_t drop = static_cast<int64_t>(found.size()) - std::max<int64_t>(keep, 1);
  for (int64_t i = 0; i < drop; ++i) {
    RETURN_IF_ERROR(RemoveTree(absl::StrCat(dir, "/", found[i].second)));
  }
  for (const std::string& name : names) {
    absl::string_view stem = name;
    if (absl::EndsWith(stem, kUnfinished) &&
        StepOf(stem.substr(0, stem.size() - sizeof(kUnfinished) + 1)) >= 0) {
      RETURN_IF_ERROR(RemoveTree(absl::StrCat(dir, "/", name)));
    }
  }
  return absl::OkStatus();
}

}  // namespace sluice
