// Writes a checkpoint as torchvision's ResNet.

#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/train/command.h"
#include "models/resnet/torchvision_layout.h"

ABSL_FLAG(std::string, checkpoint, "", "a checkpoint: <run>/checkpoints/step-<n>");
ABSL_FLAG(std::string, out, "", "folder for model.safetensors");

namespace sluice {
namespace {

const char kHelp[] =
    "Writes the model of a checkpoint as torchvision's ResNet of the same depth, whose\n"
    "load_state_dict takes it, and timm.\n\n"
    "  bazel run //models/resnet:export -- --checkpoint=runs/<time>/checkpoints/step-001000 "
    "--out=tv\n";

absl::Status Run() {
  const std::string out = absl::GetFlag(FLAGS_out);
  RETURN_IF_ERROR(ExportTorchvision(absl::GetFlag(FLAGS_checkpoint), out));
  absl::PrintF("%s: %s\n", out, kWeightsFile);
  return absl::OkStatus();
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunCommand({"export",
                             sluice::kHelp,
                             {{"Flags", {{"checkpoint", "PATH", ""}, {"out", "FOLDER", ""}}}},
                             {"checkpoint", "out"},
                             sluice::Run},
                            argc, argv);
}
