#include "framework/train/command.h"

#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/printable.h"
#include "framework/base/process.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

absl::Status ReadFlags(const Command& command, int argc, char** argv, ParsedFlags* parsed) {
  RETURN_IF_ERROR(
      ParseFlags(command.groups, std::vector<std::string>(argv + 1, argv + argc), parsed));
  for (const std::string& flag : command.needed) {
    if (!parsed->help && parsed->given.count(flag) == 0) {
      return absl::InvalidArgumentError(absl::StrCat("--", flag, ": expected a value, got none"));
    }
  }
  return absl::OkStatus();
}

int Fail(const Command& command, const absl::Status& status, int code) {
  absl::FPrintF(stderr, "%s: %s\n", command.name, PrintableLine(status.message()));
  return code;
}

}  // namespace

absl::Status EnterFolderOfCaller() {
  const char* caller = getenv("BUILD_WORKING_DIRECTORY");
  if (caller == nullptr || chdir(caller) == 0) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("cannot enter ", caller));
}

int RunCommand(const Command& command, int argc, char** argv) {
  return RunProcess(command.name, [&] {
    ParsedFlags parsed;
    const absl::Status flags = ReadFlags(command, argc, argv, &parsed);
    if (!flags.ok()) return Fail(command, flags, 2);
    absl::Status status;
    if (parsed.help) {
      absl::PrintF("%s", FlagsHelp(command.help, command.groups));
    } else {
      status = EnterFolderOfCaller();
      if (status.ok()) status = command.run();
    }
    if (status.ok()) status = FlushOutput();
    return status.ok() ? 0 : Fail(command, status, 1);
  });
}

}  // namespace sluice
