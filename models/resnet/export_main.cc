// Writes a checkpoint as torchvision's ResNet.

#include <string>

#include "framework/base/status.h"
#include "framework/train/weight_commands.h"
#include "models/resnet/torchvision_layout.h"

namespace sluice {
namespace {

const char kHelp[] =
    "Writes the model of a checkpoint as torchvision's ResNet of the same depth, whose\n"
    "load_state_dict takes it, and timm.\n\n"
    "  bazel run //models/resnet:export -- --checkpoint=runs/<time>/checkpoints/step-001000 "
    "--out=tv\n";

absl::StatusOr<std::string> Write(const std::string& checkpoint, const std::string& folder) {
  RETURN_IF_ERROR(ExportTorchvision(checkpoint, folder));
  return kWeightsFile;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunExportCommand({sluice::kHelp, {}, sluice::Write}, argc, argv);
}
