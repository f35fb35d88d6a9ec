// The file in which //bench:calibrate describes a machine. Pure but for reading it.
#ifndef SLUICE_FRAMEWORK_TRAIN_MACHINE_FILE_H_
#define SLUICE_FRAMEWORK_TRAIN_MACHINE_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "framework/machine/machine.h"

namespace sluice {

struct MachineFile {
  Machine machine;
  std::string digest;  // of its text
};

// Errors name the path.
absl::StatusOr<MachineFile> ReadMachine(const std::string& path);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_MACHINE_FILE_H_
