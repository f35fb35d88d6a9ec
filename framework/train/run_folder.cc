#include "framework/train/run_folder.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/checkpoint/file.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

bool Exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// One text for one folder, whether it exists or not and however it is written.
fs::path Canonical(const std::string& path) {
  std::error_code error;
  const fs::path canonical = fs::weakly_canonical(path, error);
  return canonical.has_filename() ? canonical : canonical.parent_path();  // "a/" is "a"
}

// The newest whole checkpoint of a run, or of a folder of checkpoints.
absl::Status FindLatest(const std::string& path, ResumePoint* point) {
  absl::StatusOr<std::string> latest = absl::NotFoundError("");
  for (const std::string& folder : {path + "/checkpoints", path}) {
    if (absl::IsNotFound(latest.status())) latest = LatestGoodCheckpoint(folder, &point->damaged);
  }
  if (absl::IsNotFound(latest.status())) {
    return absl::NotFoundError(
        absl::StrCat("--resume: expected a checkpoint or the folder of a run, got \"", path, "\""));
  }
  if (!latest.ok()) return AddContext(latest.status(), "--resume: no checkpoint is whole");
  point->checkpoint = *latest;
  for (const DamagedCheckpoint& damaged : point->damaged) {
    SLUICE_LOG(WARNING) << damaged.path << " is not whole: " << damaged.status.message()
                        << "; --resume takes " << *latest;
  }
  return absl::OkStatus();
}

// Whether a folder has the files of a checkpoint that several ranks wrote.
bool HasParts(const std::string& path) {
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(path);
  return names.ok() && std::any_of(names->begin(), names->end(), [](const std::string& name) {
           return absl::StartsWith(name, "tensors-00001-of-");
         });
}

}  // namespace

bool IsRunFolder(const std::string& path) {
  const bool run = Exists(path + "/log.jsonl") &&
                   (Exists(path + "/options.txt") || Exists(path + "/checkpoints"));
  if (run) return true;
  return Exists(path + "/manifest.json") &&
         (Exists(path + "/tensors.safetensors") || HasParts(path));
}

std::function<bool(const std::string& path)> RunFolders(const std::string& out) {
  return [own = Canonical(out)](const std::string& path) {
    return Canonical(path) == own || IsRunFolder(path);
  };
}

absl::Status CheckNewRun(const std::string& out) {
  if (!Exists(out + "/log.jsonl")) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat("--out: ", out, " already holds a run; --resume=", out, " goes on with it"));
}

absl::StatusOr<ResumePoint> FindResumePoint(const std::string& path) {
  ResumePoint point;
  point.checkpoint = path;
  if (!Exists(path + "/manifest.json")) RETURN_IF_ERROR(FindLatest(path, &point));
  std::error_code error;
  const fs::path folder = fs::path(point.checkpoint).lexically_normal().parent_path();
  const absl::StatusOr<std::string> latest = LatestCheckpoint(folder.string());
  const bool last =
      !point.damaged.empty() || (latest.ok() && fs::equivalent(*latest, point.checkpoint, error));
  if (folder.filename() == "checkpoints" && last) {
    point.run = folder.has_parent_path() ? folder.parent_path().string() : ".";
  }
  return point;
}

absl::Status WriteOptions(const std::string& out,
                          const std::vector<std::pair<std::string, std::string>>& flags) {
  RETURN_IF_ERROR(CreateDirectories(out));
  ASSIGN_OR_RETURN(FileWriter writer, FileWriter::Create(out + "/options.txt"));
  for (const auto& flag : flags) {
    RETURN_IF_ERROR(writer.Append(absl::StrCat("--", flag.first, "=", flag.second, "\n")));
  }
  return writer.Close();
}

}  // namespace sluice
