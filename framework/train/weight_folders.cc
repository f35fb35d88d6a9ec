#include "framework/train/weight_folders.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/checkpoint/safetensors_shards.h"
#include "framework/train/paths.h"
#include "framework/train/run_lock.h"

namespace sluice {
namespace {

constexpr char kImported[] = "step-000000";
constexpr int64_t kRunFileLimit = 256 << 20;  // bytes

// Into a folder that is there already, the new one goes as a whole: what else lay there would be
// lost, so there must be nothing else.
absl::Status CheckOlderExport(const std::string& folder, const std::vector<std::string>& names) {
  ASSIGN_OR_RETURN(const std::vector<std::string> found, ListDirectory(folder));
  for (const std::string& name : found) {
    const bool written = std::find(names.begin(), names.end(), name) != names.end();
    if (written || IsWeightsFile(name)) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("export: expected a new folder or one with an older export alone, ", folder,
                     " also has ", name));
  }
  return absl::OkStatus();
}

absl::Status WriteFiles(const std::string& folder,
                        const std::function<absl::Status(const std::string&)>& write,
                        FileFaults* faults) {
  RETURN_IF_ERROR(RemoveTree(folder, faults));
  RETURN_IF_ERROR(CreateDirectories(folder, faults));
  RETURN_IF_ERROR(write(folder));
  return SyncDirectory(folder, faults);
}

// Beside its place first, so that at every moment there is an older export or this one, whole.
absl::Status WriteUnfinished(const std::string& folder, const std::string& unfinished,
                             const std::function<absl::Status(const std::string&)>& write,
                             FileFaults* faults) {
  absl::Status status = WriteFiles(unfinished, write, faults);
  if (status.ok()) status = ReplaceDirectory(unfinished, folder, faults);
  if (!status.ok()) {
    RemoveTree(unfinished, faults).IgnoreError();  // the first error is the one to tell
    return status;
  }
  const std::string parent = std::filesystem::path(folder).parent_path().string();
  RETURN_IF_ERROR(SyncDirectory(parent, faults));
  return RemoveTree(unfinished, faults);  // the older one
}

// One path for one folder, whether it exists or not and however it is named.
absl::StatusOr<std::filesystem::path> PlaceOf(const std::string& folder) {
  std::error_code error;
  const std::filesystem::path place =
      std::filesystem::weakly_canonical(std::filesystem::absolute(folder, error), error);
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat(folder, ": cannot follow"));
  return place.has_filename() ? place : place.parent_path();  // "hf/" is "hf"
}

// Where a folder is the checkpoints of a run, by the name it is given or by the one it has, that
// run's is locked, as by who trains there.
absl::StatusOr<std::string> FolderToLock(const std::string& out) {
  std::error_code error;
  const std::filesystem::path named =
      (std::filesystem::absolute(out, error) / "").lexically_normal().parent_path();
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat(out, ": cannot follow"));
  if (named.filename() == "checkpoints") return named.parent_path().string();
  ASSIGN_OR_RETURN(const std::filesystem::path place, PlaceOf(out));
  return (place.filename() == "checkpoints" ? place.parent_path() : place).string();
}

// A run that has come further is not to find another model at its beginning.
absl::Status CheckOlderImport(const std::string& out) {
  const absl::StatusOr<std::string> newest = LatestCheckpoint(out);
  if (absl::IsNotFound(newest.status())) return absl::OkStatus();
  RETURN_IF_ERROR(newest.status());
  const std::string name = std::filesystem::path(*newest).filename().string();
  if (name == kImported) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("import: expected a new folder or one with an older import alone, ", out,
                   " also has ", name));
}

// Those that are there, of the names in `files`.
absl::StatusOr<RunFiles> ReadRunFiles(const std::string& run, const RunFiles& files) {
  RunFiles found;
  for (const auto& [name, text] : files) {
    const std::string path = PathIn(run, name);
    if (!PathExists(path)) continue;
    ASSIGN_OR_RETURN(found[name], ReadText(path, kRunFileLimit));
  }
  return found;
}

absl::Status WriteRunFiles(const std::string& run, const RunFiles& files) {
  for (const auto& [name, text] : files) {
    if (text) RETURN_IF_ERROR(WriteRunFile(PathIn(run, name), *text));
  }
  return SyncDirectory(run);
}

// The files of an older import go first: a checkpoint without a vocabulary is refused by whoever
// needs one, and one with a vocabulary of another model would be taken.
absl::StatusOr<std::string> SaveWithFiles(const std::string& out, const CheckpointMeta& meta,
                                          absl::Span<const TensorEntry> tensors,
                                          const TensorSource& source, const RunFiles& files) {
  const std::string run = RunFolderOf(absl::StrCat(out, "/", kImported));
  ASSIGN_OR_RETURN(const RunFiles older, ReadRunFiles(run, files));
  for (const auto& [name, text] : older) RETURN_IF_ERROR(RemoveTree(PathIn(run, name)));
  absl::StatusOr<std::string> saved = SaveCheckpoint(out, meta, tensors, source);
  // Where nothing was saved, the older import is as it was.
  const absl::Status written = WriteRunFiles(run, saved.ok() ? files : older);
  if (saved.ok() && !written.ok()) return written;
  return saved;
}

}  // namespace

absl::Status WriteExport(const std::string& to, const std::vector<std::string>& names,
                         const std::function<absl::Status(const std::string&)>& write,
                         FileFaults* faults) {
  ASSIGN_OR_RETURN(const std::filesystem::path place, PlaceOf(to));
  const std::string folder = place.string(), unfinished = folder + ".export.tmp";
  RETURN_IF_ERROR(CheckOlderExport(folder, names));
  RETURN_IF_ERROR(CreateDirectories(place.parent_path().string(), faults));
  // While it is held, what is there unfinished is of a process that is no more.
  ASSIGN_OR_RETURN(RunLock lock, RunLock::Take(folder + ".export.lock", folder));
  const absl::Status status = WriteUnfinished(folder, unfinished, write, faults);
  lock.RemoveFile();
  return status;
}

absl::StatusOr<std::string> WriteImport(const std::string& out, const CheckpointMeta& meta,
                                        absl::Span<const TensorEntry> tensors,
                                        const TensorSource& source, const RunFiles& files) {
  RETURN_IF_ERROR(CreateDirectories(out));
  ASSIGN_OR_RETURN(const std::string locked, FolderToLock(out));
  ASSIGN_OR_RETURN(RunLock lock, RunLock::Take(locked));
  RETURN_IF_ERROR(CheckOlderImport(out));
  absl::StatusOr<std::string> saved = SaveWithFiles(out, meta, tensors, source, files);
  if (lock.fresh()) lock.RemoveFile();
  return saved;
}

}  // namespace sluice
