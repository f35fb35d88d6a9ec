// The two programs of a model that hand weights on: out of a checkpoint into the files of another
// framework, and in from them. A main is one call. For main alone.
#ifndef SLUICE_FRAMEWORK_TRAIN_WEIGHT_COMMANDS_H_
#define SLUICE_FRAMEWORK_TRAIN_WEIGHT_COMMANDS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/train/flags.h"
#include "framework/train/weight_layout.h"

namespace sluice {

struct ExportCommand {
  std::string help;              // stands above the flags
  std::vector<FlagEntry> flags;  // besides --checkpoint and --out
  // Returns the names of the files that it wrote into `folder`.
  std::function<absl::StatusOr<std::vector<std::string>>(
      const std::string& checkpoint, const std::string& folder, const ExportOptions& options)>
      write;
};

struct ImportCommand {
  std::string help;
  FlagEntry model;  // --model, which weights are
  std::function<absl::StatusOr<ImportedWeights>(const std::string& model, const std::string& out)>
      read;
};

// Reads a size as save_pretrained takes it: a number of bytes, or of KB, MB, GB, KiB, MiB or GiB.
absl::StatusOr<int64_t> ParseSize(absl::string_view text);

// What main returns, as RunCommand's (command.h).
int RunExportCommand(const ExportCommand& command, int argc, char** argv);
int RunImportCommand(const ImportCommand& command, int argc, char** argv);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_WEIGHT_COMMANDS_H_
