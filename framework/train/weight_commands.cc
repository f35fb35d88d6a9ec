#include "framework/train/weight_commands.h"

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/train/command.h"

ABSL_FLAG(std::string, checkpoint, "", "a checkpoint: <run>/checkpoints/step-<n>");
ABSL_FLAG(std::string, model, "", "folder with model.safetensors and config.json");
ABSL_FLAG(std::string, out, "", "folder that is written");

namespace sluice {

int RunExportCommand(const ExportCommand& command, int argc, char** argv) {
  FlagGroup group = {"Flags",
                     {{"checkpoint", "PATH", ""},
                      {"out", "FOLDER", "", "folder for model.safetensors and what goes with it"}}};
  group.flags.insert(group.flags.end(), command.flags.begin(), command.flags.end());
  const auto run = [&]() -> absl::Status {
    const std::string out = absl::GetFlag(FLAGS_out);
    ASSIGN_OR_RETURN(const std::string files, command.write(absl::GetFlag(FLAGS_checkpoint), out));
    absl::PrintF("%s: %s\n", out, files);
    return absl::OkStatus();
  };
  return RunCommand({"export", command.help, {group}, {"checkpoint", "out"}, run}, argc, argv);
}

int RunImportCommand(const ImportCommand& command, int argc, char** argv) {
  const FlagGroup group = {
      "Flags",
      {command.model,
       {"out", "FOLDER", "", "folder for the checkpoint, which becomes its step-000000"}}};
  const auto run = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const ImportedWeights imported,
                     command.read(absl::GetFlag(FLAGS_model), absl::GetFlag(FLAGS_out)));
    absl::PrintF("%s\n", imported.checkpoint);
    if (imported.widened > 0) {
      absl::PrintF(
          "%d tensors of 16 bits were widened to f32, which loses nothing; export writes f32\n",
          imported.widened);
    }
    return absl::OkStatus();
  };
  return RunCommand({"import", command.help, {group}, {"model", "out"}, run}, argc, argv);
}

}  // namespace sluice
