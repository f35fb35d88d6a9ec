// Writes a checkpoint as Hugging Face's GPT-2.

#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/train/command.h"
#include "models/gpt/gpt2_layout.h"

ABSL_FLAG(std::string, checkpoint, "", "a checkpoint: <run>/checkpoints/step-<n>");
ABSL_FLAG(std::string, out, "", "folder for model.safetensors and config.json");
ABSL_FLAG(int64_t, heads, 0, "attention heads; 0: as the checkpoint's options say");

namespace sluice {
namespace {

const char kHelp[] =
    "Writes the model of a checkpoint as Hugging Face's GPT-2; transformers opens the folder.\n\n"
    "  bazel run //models/gpt:export -- --checkpoint=runs/<time>/checkpoints/step-001000 "
    "--out=hf\n";

absl::Status Run() {
  const std::string out = absl::GetFlag(FLAGS_out);
  RETURN_IF_ERROR(ExportGpt2(absl::GetFlag(FLAGS_checkpoint), absl::GetFlag(FLAGS_heads), out));
  absl::PrintF("%s: model.safetensors, config.json\n", out);
  return absl::OkStatus();
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunCommand(
      {"export",
       sluice::kHelp,
       {{"Flags", {{"checkpoint", "PATH", ""}, {"out", "FOLDER", ""}, {"heads", "N", ""}}}},
       {"checkpoint", "out"},
       sluice::Run},
      argc, argv);
}
