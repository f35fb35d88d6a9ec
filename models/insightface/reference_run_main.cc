// Writes what bench/peers/insightface_torch.py reads: the run's initial values, its batches, and in
// sluice.json the losses and norms that Sluice gets.

#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/train/command.h"
#include "models/insightface/reference_run.h"

ABSL_FLAG(std::string, out, "reference_run", "folder to write into");

namespace sluice {
namespace {

absl::Status Write() {
  const std::string out = absl::GetFlag(FLAGS_out);
  RETURN_IF_ERROR(WriteReferenceRun(FaceReferenceRun(), out));
  absl::PrintF("%s: initial values, %d batches, and what Sluice makes of them\n", out,
               kReferenceRunSteps);
  return absl::OkStatus();
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunCommand({"reference_run",
                             "Writes the run that PyTorch repeats: see bench/README.md.\n",
                             {{"Flags", {{"out", "FOLDER", ""}}}},
                             {},
                             sluice::Write},
                            argc, argv);
}
