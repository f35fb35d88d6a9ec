// Writes what bench/peers/gpt_torch.py reads: the initial values of the witness's run, its batches,
// and in sluice.json the losses and norms that Sluice gets.

#include <filesystem>
#include <string>
#include <system_error>

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/train/command.h"
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

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  std::error_code error;
  const std::string text = std::filesystem::absolute(sluice::kText, error).string();
  return sluice::RunCommand({"witness",
                             "Writes the run that PyTorch repeats: see bench/README.md.\n",
                             {{"Flags", {{"out", "FOLDER", ""}}}},
                             {},
                             [&text] { return sluice::Write(text); }},
                            argc, argv);
}
