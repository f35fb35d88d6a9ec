// The folder of a run: options.txt, log.jsonl and checkpoints/step-<n>. Finding one's way in it,
// and keeping out of the others'. One thread.
#ifndef SLUICE_FRAMEWORK_TRAIN_RUN_FOLDER_H_
#define SLUICE_FRAMEWORK_TRAIN_RUN_FOLDER_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/checkpoint/checkpoint.h"

namespace sluice {

// Whether a folder is that of a run, or a checkpoint. Such a folder is never data: a run that read
// its own log would learn from something else after every resume.
bool IsRunFolder(const std::string& path);

// Says of a folder whether it must not be read as data: the folder of any run, or `out`, which may
// not exist yet.
std::function<bool(const std::string& path)> RunFolders(const std::string& out);

// AlreadyExists where another run stands in `out`: two would spoil each other's log and
// checkpoints.
absl::Status CheckNewRun(const std::string& out);

// What --resume comes to.
struct ResumePoint {
  std::string checkpoint;
  // Later ones of the same run that are not as they were written.
  std::vector<DamagedCheckpoint> damaged;
  // The run's folder, if the checkpoint is its last that is whole; empty: another run begins, so
  // that what came after it stays.
  std::string run;
};

// `path` is a checkpoint, the folder of a run, or a folder of checkpoints.
absl::StatusOr<ResumePoint> FindResumePoint(const std::string& path);

// Makes the folder, and options.txt in it: a line "--name=value" a flag.
absl::Status WriteOptions(const std::string& out,
                          const std::vector<std::pair<std::string, std::string>>& flags);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_RUN_FOLDER_H_
