// Writes a checkpoint as Hugging Face's GPT-2.

#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "framework/train/weight_commands.h"
#include "models/gpt/gpt2_layout.h"

ABSL_FLAG(int64_t, heads, 0, "attention heads; 0: as the checkpoint's options say");

namespace sluice {
namespace {

const char kHelp[] =
    "Writes the model of a checkpoint as Hugging Face's GPT-2, with the byte pairs of its run;\n"
    "transformers opens the folder.\n\n"
    "  bazel run //models/gpt:export -- --checkpoint=runs/<time>/checkpoints/step-001000 "
    "--out=hf\n";

absl::StatusOr<std::vector<std::string>> Write(const std::string& checkpoint,
                                               const std::string& folder,
                                               const ExportOptions& options) {
  return ExportGpt2(checkpoint, absl::GetFlag(FLAGS_heads), folder, options);
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunExportCommand({sluice::kHelp, {{"heads", "N", ""}}, sluice::Write}, argc, argv);
}
