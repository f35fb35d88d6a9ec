// Makes a checkpoint of torchvision's ResNet.

#include "framework/train/weight_commands.h"
#include "models/resnet/torchvision_layout.h"

namespace sluice {
namespace {

const char kHelp[] =
    "Makes a checkpoint of a ResNet's state_dict as torchvision and timm name it, which the\n"
    "trainer goes on from.\n\n"
    "  bazel run //models/resnet:import -- --model=resnet50.safetensors "
    "--out=runs/imported/checkpoints\n"
    "  bazel run //models/resnet:train -- --resume=runs/imported --data=pictures --lr=0.01\n";

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunImportCommand(
      {sluice::kHelp,
       {"model", "PATH", "",
        "a safetensors file, or a folder with model.safetensors or its shards"},
       sluice::ImportTorchvision},
      argc, argv);
}
