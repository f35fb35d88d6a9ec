#include "framework/testing/reference_run_main.h"

#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/train/command.h"

ABSL_FLAG(std::string, out, "reference_run", "folder to write into");

namespace sluice {
namespace {

absl::Status Write(const ReferenceRunCase& of) {
  const std::string out = absl::GetFlag(FLAGS_out);
  RETURN_IF_ERROR(WriteReferenceRun(of, out));
  absl::PrintF("%s: initial values, %d batches, and what Sluice makes of them\n", out,
               kReferenceRunSteps);
  return absl::OkStatus();
}

}  // namespace

int RunReferenceRunMain(const ReferenceRunCase& of, int argc, char** argv) {
  return RunCommand({"reference_run",
                     "Writes the run that PyTorch repeats: see bench/README.md.\n",
                     {{"Flags", {{"out", "FOLDER", ""}}}},
                     {},
                     [&of] { return Write(of); }},
                    argc, argv);
}

}  // namespace sluice
