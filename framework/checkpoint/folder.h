// What a checkpoint's folder and the files in it are called, how a folder is committed, and whether
// its files have what its manifest says. Used by what reads and writes checkpoints.
#ifndef SLUICE_FRAMEWORK_CHECKPOINT_FOLDER_H_
#define SLUICE_FRAMEWORK_CHECKPOINT_FOLDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/checkpoint/file.h"
#include "framework/checkpoint/manifest.h"
#include "framework/checkpoint/safetensors.h"

namespace sluice {

constexpr char kManifest[] = "manifest.json";
constexpr char kUnfinished[] = ".tmp";

// <dir>/step-000123; an error where step or samples are none that a manifest can have.
absl::StatusOr<std::string> CheckpointPath(const std::string& dir, const CheckpointMeta& meta);
// "manifest-00001-of-00004.json" for the first of four.
std::string PartManifest(int32_t part, int32_t parts);

absl::StatusOr<Manifest> ReadManifest(const std::string& file);
absl::Status WriteManifest(const std::string& file, const Manifest& manifest, FileFaults* faults);
// The files of tensors of the folder, by part; DataLoss names one that has not the tensors or boxes
// of the manifest, of their types.
absl::StatusOr<std::vector<SafetensorsReader>> OpenTensors(const std::string& path,
                                                           const Manifest& manifest);

// Makes <path>.tmp anew, empty.
absl::Status BeginFolder(const std::string& path, FileFaults* faults);
// Gives <path>.tmp, all of which is on disk, its name.
absl::Status CommitFolder(const std::string& path, FileFaults* faults);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_CHECKPOINT_FOLDER_H_
