// Writes a checkpoint as Hugging Face's GPT-2.

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/train/flags.h"
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

int Main(int argc, char** argv) {
  const std::vector<FlagGroup> groups = {
      {"Flags", {{"checkpoint", "PATH", ""}, {"out", "FOLDER", ""}, {"heads", "N", ""}}}};
  ParsedFlags parsed;
  absl::Status status =
      ParseFlags(groups, std::vector<std::string>(argv + 1, argv + argc), &parsed);
  if (status.ok() && parsed.help) {
    absl::PrintF("%s", FlagsHelp(kHelp, groups));
    return 0;
  }
  for (const char* needed : {"checkpoint", "out"}) {
    if (status.ok() && parsed.given.count(needed) == 0) {
      status =
          absl::InvalidArgumentError(absl::StrFormat("--%s: expected a path, got none", needed));
    }
  }
  const bool usage = !status.ok();
  // Under `bazel run`, paths are those of the shell that it was started from.
  const char* caller = getenv("BUILD_WORKING_DIRECTORY");
  if (status.ok() && caller != nullptr && chdir(caller) != 0) {
    status = absl::NotFoundError(std::string("cannot enter ") + caller);
  }
  if (status.ok()) status = Run();
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "export: %s\n", status.message());
  return usage ? 2 : 1;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) { return sluice::Main(argc, argv); }
