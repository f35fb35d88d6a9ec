// Writes a checkpoint as torchvision's ResNet.

#include "framework/train/weight_commands.h"
#include "models/resnet/torchvision_layout.h"

namespace sluice {
namespace {

const char kHelp[] =
    "Writes the model of a checkpoint as torchvision's ResNet of the same depth, whose\n"
    "load_state_dict takes it, and timm.\n\n"
    "  bazel run //models/resnet:export -- --checkpoint=runs/<time>/checkpoints/step-001000 "
    "--out=tv\n";

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunExportCommand({sluice::kHelp, {}, sluice::ExportTorchvision}, argc, argv);
}
