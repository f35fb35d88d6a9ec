// Runs a kernel that is wrong on purpose, for a tool that has to find it: ci/gpu starts it under
// compute-sanitizer.
//   compute-sanitizer --tool racecheck wrong_kernels --fault=shared_race
#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "framework/testing/wrong_kernels.h"
#include "framework/train/command.h"

ABSL_FLAG(std::string, fault, "none", "one that --list names");
ABSL_FLAG(bool, list, false, "a line for each: name, tool that finds it, what is wrong");

namespace sluice {
namespace {

absl::Status Run() {
  if (!absl::GetFlag(FLAGS_list)) return RunWrongKernel(absl::GetFlag(FLAGS_fault));
  for (const WrongKernel& fault : WrongKernels()) {
    absl::PrintF("%s\t%s\t%s\n", fault.name, fault.tool, fault.what);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunCommand({"wrong_kernels",
                             "Runs a CUDA kernel that is wrong on purpose.\n",
                             {{"Flags", {{"fault", "NAME", ""}, {"list", "", ""}}}},
                             {},
                             sluice::Run},
                            argc, argv);
}
