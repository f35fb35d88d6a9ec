// What lies in a folder of data. Any thread.
#ifndef SLUICE_FRAMEWORK_DATA_LIST_FOLDER_H_
#define SLUICE_FRAMEWORK_DATA_LIST_FOLDER_H_

#include <filesystem>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice {

// What a folder holds but for hidden names, in order of the names.
absl::StatusOr<std::vector<std::filesystem::directory_entry>> ListFolder(
    const std::filesystem::path& folder);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_LIST_FOLDER_H_
