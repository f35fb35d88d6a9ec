// Makes a checkpoint of Hugging Face's GPT-2.

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/train/flags.h"
#include "models/gpt/gpt2_layout.h"

ABSL_FLAG(std::string, model, "", "folder with model.safetensors and config.json");
ABSL_FLAG(std::string, out, "", "folder for the checkpoint, which becomes its step-000000");

namespace sluice {
namespace {

const char kHelp[] =
    "Makes a checkpoint of a GPT-2 as Hugging Face writes it. Over bytes (a vocabulary of 256) "
    "the\n"
    "trainer goes on from it; any other one can be exported again.\n\n"
    "  bazel run //models/gpt:import -- --model=hf --out=runs/imported/checkpoints\n"
    "  bazel run //models/gpt:train -- --resume=runs/imported --data=book.txt\n";

absl::Status Run() {
  ASSIGN_OR_RETURN(const std::string path,
                   ImportGpt2(absl::GetFlag(FLAGS_model), absl::GetFlag(FLAGS_out)));
  absl::PrintF("%s\n", path);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  const std::vector<FlagGroup> groups = {
      {"Flags", {{"model", "FOLDER", ""}, {"out", "FOLDER", ""}}}};
  ParsedFlags parsed;
  absl::Status status =
      ParseFlags(groups, std::vector<std::string>(argv + 1, argv + argc), &parsed);
  if (status.ok() && parsed.help) {
    absl::PrintF("%s", FlagsHelp(kHelp, groups));
    return 0;
  }
  for (const char* needed : {"model", "out"}) {
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
  absl::FPrintF(stderr, "import: %s\n", status.message());
  return usage ? 2 : 1;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) { return sluice::Main(argc, argv); }
