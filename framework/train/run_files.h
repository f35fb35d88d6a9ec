// Files that a run keeps in its folder besides checkpoints and logs, such as its vocabulary. Pure,
// but for following links.
#ifndef SLUICE_FRAMEWORK_TRAIN_RUN_FILES_H_
#define SLUICE_FRAMEWORK_TRAIN_RUN_FILES_H_

#include <map>
#include <optional>
#include <string>

namespace sluice {

// Texts by file name. Null: a run of this kind may keep such a file, and this one has none.
using RunFiles = std::map<std::string, std::optional<std::string>>;

// Returns the folder in which the run of a checkpoint keeps such files, however the checkpoint is
// named: the one around "checkpoints", or the one that the checkpoint itself is in where that has
// another name.
std::string RunFolderOf(const std::string& checkpoint);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_RUN_FILES_H_
