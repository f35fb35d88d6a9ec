// Makes a checkpoint of Hugging Face's GPT-2.

#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/train/command.h"
#include "models/gpt/gpt2_layout.h"

ABSL_FLAG(std::string, model, "", "folder with model.safetensors and config.json");
ABSL_FLAG(std::string, out, "", "folder for the checkpoint, which becomes its step-000000");

namespace sluice {
namespace {

const char kHelp[] =
    "Makes a checkpoint of a GPT-2 as Hugging Face writes it, from which the trainer goes on. The\n"
    "folder's byte pairs, if it has any, become those of the run.\n\n"
    "  bazel run //models/gpt:import -- --model=hf --out=runs/imported/checkpoints\n"
    "  bazel run //models/gpt:train -- --resume=runs/imported --data=book.txt\n";

absl::Status Run() {
  ASSIGN_OR_RETURN(const ImportedWeights imported,
                   ImportGpt2(absl::GetFlag(FLAGS_model), absl::GetFlag(FLAGS_out)));
  absl::PrintF("%s\n", imported.checkpoint);
  if (imported.widened > 0) {
    absl::PrintF(
        "%d tensors of 16 bits were widened to f32, which loses nothing; export writes "
        "f32\n",
        imported.widened);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunCommand({"import",
                             sluice::kHelp,
                             {{"Flags", {{"model", "FOLDER", ""}, {"out", "FOLDER", ""}}}},
                             {"model", "out"},
                             sluice::Run},
                            argc, argv);
}
