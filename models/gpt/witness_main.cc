// Writes what bench/peers/gpt_torch.py reads: the initial values of the witness's run, its batches,
// and in sluice.json the losses and norms that Sluice gets.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/train/flags.h"
#include "models/gpt/witness.h"

ABSL_FLAG(std::string, out, "witness", "folder to write into");

namespace sluice {
namespace {

constexpr char kText[] = "models/gpt/testdata/fixed.txt";

absl::Status Write(const std::string& text_path) {
  const std::string out = absl::GetFlag(FLAGS_out);
  ASSIGN_OR_RETURN(const std::unique_ptr<Witness> witness, Witness::Start(text_path));
  RETURN_IF_ERROR(witness->WriteInputs(out));
  WitnessRecord record;
  record.peer = "sluice";
  record.batches_digest = witness->batches_digest();
  ASSIGN_OR_RETURN(record.initial_digest, witness->InitialDigest());
  ASSIGN_OR_RETURN(record.figures, witness->Train());
  RETURN_IF_ERROR(WriteWitnessRecord(out + "/sluice.json", record));
  absl::PrintF("%s: initial values, %d batches, and what Sluice makes of them\n", out,
               kWitnessSteps);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  const std::vector<FlagGroup> groups = {{"Flags", {{"out", "FOLDER", ""}}}};
  ParsedFlags parsed;
  absl::Status status =
      ParseFlags(groups, std::vector<std::string>(argv + 1, argv + argc), &parsed);
  if (status.ok() && parsed.help) {
    absl::PrintF("%s",
                 FlagsHelp("Writes the run that PyTorch repeats: see bench/README.md.\n", groups));
    return 0;
  }
  const bool usage = !status.ok();
  std::error_code error;
  const std::string text_path = std::filesystem::absolute(kText, error).string();
  const char* caller = getenv("BUILD_WORKING_DIRECTORY");
  if (status.ok() && caller != nullptr && chdir(caller) != 0) {
    status = absl::NotFoundError(std::string("cannot enter ") + caller);
  }
  if (status.ok()) status = Write(text_path);
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "witness: %s\n", status.message());
  return usage ? 2 : 1;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) { return sluice::Main(argc, argv); }
