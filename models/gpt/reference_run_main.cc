// Writes what bench/peers/gpt_torch.py reads.

#include <filesystem>
#include <string>
#include <system_error>

#include "framework/testing/reference_run_main.h"
#include "models/gpt/reference_run.h"

int main(int argc, char** argv) {
  std::error_code error;  // the work is done in the folder of the caller, the text lies here
  const std::string text =
      std::filesystem::absolute("models/gpt/testdata/fixed.txt", error).string();
  return sluice::RunReferenceRunMain(sluice::GptReferenceRun(text), argc, argv);
}
