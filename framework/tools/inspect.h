// What a file of data holds, for people. Any thread; no state.
#ifndef SLUICE_FRAMEWORK_TOOLS_INSPECT_H_
#define SLUICE_FRAMEWORK_TOOLS_INSPECT_H_

#include <string>

#include "absl/status/statusor.h"
#include "framework/data/hugectr_raw.h"
#include "framework/tools/file_format.h"

namespace sluice {

// Lines: the format, how many of what there are, types, the first samples. All of a file is read,
// so that damage anywhere is an error, which names it with its place. `columns` are those of
// HugeCTR's files.
absl::StatusOr<std::string> InspectFile(const std::string& path, FileFormat format,
                                        const RawColumns& columns);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TOOLS_INSPECT_H_
