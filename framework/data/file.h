// Files of data, read whole. Any thread; no state.
#ifndef SLUICE_FRAMEWORK_DATA_FILE_H_
#define SLUICE_FRAMEWORK_DATA_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace sluice {

// InvalidArgument, at once, where there is a pipe or a device.
absl::StatusOr<std::string> ReadFile(const std::string& path);

// The same into a buffer, which keeps what it has room for.
absl::Status ReadFileInto(const std::string& path, std::string* bytes);

// What open, stat and read failed with, as every reader of data says it.
absl::Status CannotRead(const std::string& path, int error);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_FILE_H_
