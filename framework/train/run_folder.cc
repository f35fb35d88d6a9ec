#include "framework/train/run_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/checkpoint/file.h"
#include "framework/train/paths.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// One text for one folder, whether it exists or not and however it is written.
fs::path Canonical(const std::string& path) {
  std::error_code error;
  const fs::path canonical = fs::weakly_canonical(fs::absolute(path, error), error);
  return canonical.has_filename() ? canonical : canonical.parent_path();  // "a/" is "a"
}

// The newest whole checkpoint of a run, or of a folder of checkpoints.
absl::Status FindLatest(const std::string& path, ResumePoint* point) {
  absl::StatusOr<std::string> latest = absl::NotFoundError("");
  for (const std::string& folder : {path + "/checkpoints", path}) {
    if (absl::IsNotFound(latest.status())) latest = LatestGoodCheckpoint(folder, &point->damaged);
  }
  if (absl::IsNotFound(latest.status())) {
    if (PathExists(path + "/log.jsonl") || PathExists(path + "/options.txt")) {
      return absl::NotFoundError(
          absl::StrCat("--resume: expected a checkpoint in ", path,
                       ", whose run has not saved one yet; the "
                       "command that began it, given again, begins it anew"));
    }
    return absl::NotFoundError(
        absl::StrCat("--resume: expected a checkpoint or the folder of a run, got \"", path, "\""));
  }
  if (absl::IsDataLoss(latest.status())) {
    return AddContext(latest.status(), "--resume: no checkpoint is whole");
  }
  if (!latest.ok()) {
    return AddContext(latest.status(), "--resume: a checkpoint that may be whole cannot be read");
  }
  point->checkpoint = *latest;
  for (const DamagedCheckpoint& damaged : point->damaged) {
    SLUICE_LOG(WARNING) << damaged.path << " is not whole: " << damaged.status.message()
                        << "; --resume takes " << *latest;
  }
  return absl::OkStatus();
}

bool IsTensorsFile(const std::string& name) {
  return name == "tensors.safetensors" || absl::StartsWith(name, "tensors-00001-of-");
}

// Whether a folder has the files of a checkpoint, or some of them and a checkpoint's name, as one
// that is being written or was set aside.
bool IsCheckpointFolder(const std::string& path) {
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(path);
  if (!names.ok()) return false;
  const bool tensors = std::any_of(names->begin(), names->end(), IsTensorsFile);
  const bool manifest = std::find(names->begin(), names->end(), "manifest.json") != names->end();
  const bool named = absl::StartsWith(fs::path(path).filename().string(), "step-");
  return (tensors && manifest) || (named && (tensors || manifest));
}

// Another process may have gone on with a run before this one had its lock.
absl::Status CheckUnchanged(const ResumePoint& point) {
  const std::string& expected = point.damaged.empty() ? point.checkpoint : point.damaged[0].path;
  const absl::StatusOr<std::string> newest = LatestCheckpoint(FolderAroundCheckpoint(expected));
  std::error_code error;
  if (newest.ok() && fs::equivalent(*newest, expected, error)) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat("--resume: another process has worked in ",
                                               point.run, ": expected its newest checkpoint to be ",
                                               expected, ", got ", newest.ok() ? *newest : "none",
                                               "; --resume again goes on with that"));
}

// A folder that was not there.
absl::StatusOr<std::string> MakeNewFolder(const std::string& wanted) {
  const std::string parent = fs::path(wanted).parent_path().string();
  if (!parent.empty()) RETURN_IF_ERROR(CreateDirectories(parent));
  constexpr int kMostTries = 1000;
  std::string path = wanted;
  for (int n = 2; mkdir(path.c_str(), 0777) != 0; ++n) {
    if (errno != EEXIST || n > kMostTries) {
      return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot create the directory"));
    }
    path = absl::StrCat(wanted, "-", n);
  }
  return path;
}

}  // namespace

bool IsRunFolder(const std::string& path) {
  if (PathExists(absl::StrCat(path, "/", kRunLock))) return true;
  const bool run = PathExists(path + "/log.jsonl") &&
                   (PathExists(path + "/options.txt") || PathExists(path + "/checkpoints"));
  return run || IsCheckpointFolder(path);
}

std::string RunAround(const std::string& path) {
  for (fs::path at = Canonical(path); at.has_relative_path(); at = at.parent_path()) {
    if (IsCheckpointFolder(at.string())) return at.string();
    const std::string name = at.filename().string(), folder = at.parent_path().string();
    const bool written =
        name == "checkpoints" || name == "log.jsonl" || name == "options.txt" || name == kRunLock;
    if (written && IsRunFolder(folder)) return folder;
  }
  return "";
}

std::function<bool(const std::string& path)> RunFolders(const std::string& out) {
  return [own = Canonical(out)](const std::string& path) {
    return Canonical(path) == own || IsRunFolder(path);
  };
}

absl::Status CheckNoRun(const std::string& out) {
  if (!LatestCheckpoint(out + "/checkpoints").ok()) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat("--out: ", out, " already holds a run; --resume=", out, " goes on with it"));
}

absl::StatusOr<ResumePoint> FindResumePoint(const std::string& path) {
  ResumePoint point;
  point.checkpoint = path;
  // Who names a run means that run, and not another that begins where it stood a moment ago: it may
  // be at work, and have written a newer checkpoint by now.
  const bool named_run = !PathExists(path + "/manifest.json");
  if (named_run) RETURN_IF_ERROR(FindLatest(path, &point));
  std::error_code error;
  const std::string folder = FolderAroundCheckpoint(point.checkpoint);
  const absl::StatusOr<std::string> latest = LatestCheckpoint(folder);
  const bool last = named_run || (latest.ok() && fs::equivalent(*latest, point.checkpoint, error));
  if (fs::path(folder).filename() == "checkpoints" && last) {
    point.run = RunFolderOf(point.checkpoint);
  }
  return point;
}

absl::StatusOr<OwnRun> TakeRun(const std::string& out, bool by_time, const ResumePoint& resume) {
  std::string folder = out;
  const bool made = by_time || !PathExists(folder);
  if (by_time) {
    ASSIGN_OR_RETURN(folder, MakeNewFolder(out));
  } else {
    RETURN_IF_ERROR(CreateDirectories(folder));
  }
  ASSIGN_OR_RETURN(RunLock lock, RunLock::Take(folder));
  OwnRun run(folder, made, std::move(lock));
  std::error_code error;
  const bool own = !resume.run.empty() && fs::equivalent(folder, resume.run, error);
  RETURN_IF_ERROR(own ? CheckUnchanged(resume) : CheckNoRun(folder));
  return run;
}

// While the lock is held, so that nobody has begun there meanwhile.
OwnRun::~OwnRun() { GiveUp(); }

void OwnRun::GiveUp() {
  if (std::exchange(begun_, true)) return;
  if (lock_.fresh()) lock_.RemoveFile();
  if (made_) rmdir(out_.c_str());  // or it has got something else by now
}

absl::Status SetLogAside(const std::string& out) {
  const std::string log = out + "/log.jsonl";
  if (!PathExists(log)) return absl::OkStatus();
  std::string aside;
  for (int n = 1; aside.empty() || PathExists(aside); ++n) {
    aside = absl::StrCat(out, "/log.lost-", n, ".jsonl");
  }
  SLUICE_LOG(WARNING) << "the run in " << out
                      << " ended before its first checkpoint and begins anew; "
                      << "its log is kept as " << aside;
  return Rename(log, aside);
}

absl::Status WriteOptions(const std::string& out,
                          const std::vector<std::pair<std::string, std::string>>& flags) {
  std::string text;
  for (const auto& flag : flags) absl::StrAppend(&text, "--", flag.first, "=", flag.second, "\n");
  return WriteRunFile(out + "/options.txt", text);
}

}  // namespace sluice
