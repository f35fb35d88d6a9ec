// Makes a checkpoint of Hugging Face's BERT.

#include "framework/train/weight_commands.h"
#include "models/bert/bert_layout.h"

namespace sluice {
namespace {

const char kHelp[] =
    "Makes a checkpoint of a BERT as Hugging Face writes it, from which the trainer begins, of\n"
    "the same sizes and over the same vocabulary, cased or not, which becomes that of the run.\n\n"
    "  bazel run //models/bert:import -- --model=hf --out=runs/imported/checkpoints\n"
    "  bazel run //models/bert:train -- --preset=base --task=classify --positions=512 \\\n"
    "      --data=text-classes --init=runs/imported/checkpoints/step-000000\n";

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunImportCommand({sluice::kHelp, {"model", "FOLDER", ""}, sluice::ImportBert},
                                  argc, argv);
}
