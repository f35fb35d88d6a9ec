// Folders that weights are handed on in: one that an export is, and one whose step-000000 an import
// becomes. One process at a time writes to each.
#ifndef SLUICE_FRAMEWORK_TRAIN_WEIGHT_FOLDERS_H_
#define SLUICE_FRAMEWORK_TRAIN_WEIGHT_FOLDERS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/train/run_files.h"

namespace sluice {

// `write` puts the files `names` into the empty folder that it is given. `folder` is new, empty or
// an older export, some of `names` alone; at every moment it is that or a whole new one.
// An older export may have had other shards. FailedPrecondition names what else is there,
// AlreadyExists the process that writes there.
absl::Status WriteExport(const std::string& folder, const std::vector<std::string>& names,
                         const std::function<absl::Status(const std::string&)>& write,
                         FileFaults* faults = nullptr);

// Saves a checkpoint as <out>/step-000000, with the files that its run keeps (RunFolderOf), and
// returns its path. A checkpoint is never there with files of an older import: if the process dies,
// it has none or only its own. FailedPrecondition where a run has come further there,
// AlreadyExists while one is at work.
absl::StatusOr<std::string> WriteImport(const std::string& out, const CheckpointMeta& meta,
                                        absl::Span<const TensorEntry> tensors,
                                        const TensorSource& source, const RunFiles& files);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_WEIGHT_FOLDERS_H_
