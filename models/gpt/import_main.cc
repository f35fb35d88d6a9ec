// Makes a checkpoint of Hugging Face's GPT-2.

#include "framework/train/weight_commands.h"
#include "models/gpt/gpt2_layout.h"

namespace sluice {
namespace {

const char kHelp[] =
    "Makes a checkpoint of a GPT-2 as Hugging Face writes it, from which the trainer goes on. The\n"
    "folder's byte pairs, if it has any, become those of the run.\n\n"
    "  bazel run //models/gpt:import -- --model=hf --out=runs/imported/checkpoints\n"
    "  bazel run //models/gpt:train -- --resume=runs/imported --data=book.txt\n";

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunImportCommand({sluice::kHelp, {"model", "FOLDER", ""}, sluice::ImportGpt2},
                                  argc, argv);
}
