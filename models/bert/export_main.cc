// Writes a checkpoint as Hugging Face's BERT.

#include "framework/train/weight_commands.h"
#include "models/bert/bert_layout.h"

namespace sluice {
namespace {

const char kHelp[] =
    "Writes the model of a checkpoint as Hugging Face's BERT, with its tokenizer; transformers\n"
    "opens the folder.\n\n"
    "  bazel run //models/bert:export -- --checkpoint=runs/words/checkpoints/step-004000 "
    "--out=hf\n";

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunExportCommand({sluice::kHelp, {}, sluice::ExportBert}, argc, argv);
}
