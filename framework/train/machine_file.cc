#include "framework/train/machine_file.h"

#include "framework/base/status.h"
#include "framework/checkpoint/file.h"

namespace sluice {

absl::StatusOr<Machine> ReadMachine(const std::string& path) {
  constexpr int64_t kMostBytes = 1 << 24;
  ASSIGN_OR_RETURN(const std::string text, ReadText(path, kMostBytes));
  absl::StatusOr<Machine> machine = Machine::Parse(text);
  if (!machine.ok()) return AddContext(machine.status(), path);
  return machine;
}

}  // namespace sluice
