#include "framework/train/machine_file.h"

#include "framework/base/hash.h"
#include "framework/base/status.h"
#include "framework/checkpoint/file.h"

namespace sluice {

absl::StatusOr<MachineFile> ReadMachine(const std::string& path) {
  constexpr int64_t kMostBytes = 1 << 24;
  ASSIGN_OR_RETURN(const std::string text, ReadText(path, kMostBytes));
  absl::StatusOr<Machine> machine = Machine::Parse(text);
  if (!machine.ok()) return AddContext(machine.status(), path);
  return MachineFile{*std::move(machine), HashText(StableHash(text))};
}

}  // namespace sluice
