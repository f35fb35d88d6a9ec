#include "framework/base/process.h"

#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace sluice {
namespace {

void OpenStandardDescriptors() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is this one, as those below are open by now.
    if (open("/dev/null", O_RDWR) != descriptor) _exit(1);
  }
}

int Fail(absl::string_view name, absl::string_view what) {
  absl::FPrintF(stderr, "%s: %s\n", name, what);
  return 1;
}

}  // namespace

int RunProcess(absl::string_view name, const std::function<int()>& work) {
  OpenStandardDescriptors();
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return Fail(name,
                "out of memory: an allocation failed; fewer devices, a smaller batch or a "
                "smaller model take less");
  } catch (const std::exception& error) {
    return Fail(name, absl::StrCat("ended by an error of the system: ", error.what()));
  }
}

std::string HomeFolder() {
  const char* home = getenv("HOME");
  if (home != nullptr && *home != '\0') return home;
  const passwd* user = getpwuid(getuid());
  return user == nullptr || user->pw_dir == nullptr ? "" : user->pw_dir;
}

absl::Status FlushOutput() {
  errno = 0;
  if (fflush(stdout) == 0 && ferror(stdout) == 0) return absl::OkStatus();
  const std::string reason = errno == 0 ? "an earlier write failed" : strerror(errno);
  return absl::UnavailableError(absl::StrCat("cannot write the output: ", reason));
}

}  // namespace sluice
