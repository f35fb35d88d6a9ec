// Files that a run keeps in its folder besides checkpoints and logs, such as its vocabulary, and
// where they are. One thread.
#ifndef SLUICE_FRAMEWORK_TRAIN_RUN_FILES_H_
#define SLUICE_FRAMEWORK_TRAIN_RUN_FILES_H_

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sluice {

// Texts by file name. Null: a run of this kind may keep such a file, and this one has none.
using RunFiles = std::map<std::string, std::optional<std::string>>;

// Returns the folder that a checkpoint is in, however the checkpoint is named: with a slash at its
// end, as ".", or by a link. That is "checkpoints" of its run, or a folder of another name where
// somebody has copied the checkpoint.
std::string FolderAroundCheckpoint(const std::string& checkpoint);

// Returns the folder in which the run of a checkpoint keeps such files, however the checkpoint is
// named: the one around "checkpoints", or the one that the checkpoint itself is in where that has
// another name.
std::string RunFolderOf(const std::string& checkpoint);

// Writes a small file of a run. An older one is replaced as a whole.
absl::Status WriteRunFile(const std::string& path, absl::string_view text);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_RUN_FILES_H_
