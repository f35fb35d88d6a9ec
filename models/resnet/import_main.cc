// Makes a checkpoint of torchvision's ResNet.

#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/train/command.h"
#include "models/resnet/torchvision_layout.h"

ABSL_FLAG(std::string, model, "", "a safetensors file, or a folder with model.safetensors");
ABSL_FLAG(std::string, out, "", "folder for the checkpoint, which becomes its step-000000");

namespace sluice {
namespace {

const char kHelp[] =
    "Makes a checkpoint of a ResNet's state_dict as torchvision and timm name it, which the\n"
    "trainer goes on from.\n\n"
    "  bazel run //models/resnet:import -- --model=resnet50.safetensors "
    "--out=runs/imported/checkpoints\n"
    "  bazel run //models/resnet:train -- --resume=runs/imported --data=pictures --lr=0.01\n";

absl::Status Run() {
  ASSIGN_OR_RETURN(const ImportedWeights imported,
                   ImportTorchvision(absl::GetFlag(FLAGS_model), absl::GetFlag(FLAGS_out)));
  absl::PrintF("%s\n", imported.checkpoint);
  if (imported.widened > 0) {
    absl::PrintF(
        "%d tensors of 16 bits were widened to f32, which loses nothing; export writes f32\n",
        imported.widened);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunCommand({"import",
                             sluice::kHelp,
                             {{"Flags", {{"model", "PATH", ""}, {"out", "FOLDER", ""}}}},
                             {"model", "out"},
                             sluice::Run},
                            argc, argv);
}
