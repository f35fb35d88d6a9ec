// A small program that people start by hand: its flags read, the folder of the caller entered, its
// work done, and errors told as one line. For main alone.
#ifndef SLUICE_FRAMEWORK_TRAIN_COMMAND_H_
#define SLUICE_FRAMEWORK_TRAIN_COMMAND_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "framework/train/flags.h"

namespace sluice {

struct Command {
  std::string name;  // begins its errors
  std::string help;  // stands above its flags
  std::vector<FlagGroup> groups;
  std::vector<std::string> needed;  // flags that must be given
  std::function<absl::Status()> run;
};

// Under `bazel run`, paths are those of the shell that it was started from.
absl::Status EnterFolderOfCaller();

// What main returns: 0, 1 for an error of the work or of writing what it printed, 2 for one of the
// flags. The work is done in the folder of the caller, as RunProcess does it (base/process.h).
int RunCommand(const Command& command, int argc, char** argv);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_COMMAND_H_
