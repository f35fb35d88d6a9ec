// Says what weights are that no reader here takes, and which command makes safetensors of them.
// Reads names and first bytes only. One thread.
#ifndef SLUICE_FRAMEWORK_TRAIN_FOREIGN_WEIGHTS_H_
#define SLUICE_FRAMEWORK_TRAIN_FOREIGN_WEIGHTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace sluice {

// Explains why a file could not be read as safetensors, which ended with `error`: InvalidArgument
// where its first bytes say that it is something else; else `error`. It is
// asked after reading has failed, as the length that begins a safetensors file may be any bytes.
absl::Status ExplainForeign(const std::string& path, const absl::Status& error);

// The names of what a folder has, for an error: "an empty folder", "a, b and 70 others".
std::string FolderContents(const std::vector<std::string>& names);

// The error for a folder that has no safetensors under the names that the hub gives them: names
// what there is instead.
absl::Status NoWeightsIn(const std::string& folder);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_FOREIGN_WEIGHTS_H_
