// Paths of the files that runs and models of other frameworks keep in folders. Any thread; no
// state.
#ifndef SLUICE_FRAMEWORK_TRAIN_PATHS_H_
#define SLUICE_FRAMEWORK_TRAIN_PATHS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace sluice {

// Returns whether there is a file or a folder at `path`. False as well where nobody may look; the
// caller that opens it all the same is told why.
bool PathExists(const std::string& path);

// Returns the path of the file `name` in a folder.
std::string PathIn(absl::string_view folder, absl::string_view name);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_PATHS_H_
