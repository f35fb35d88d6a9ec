#include "framework/base/thread.h"

#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {

absl::Status StartThread(std::function<void()> run, std::thread* thread) {
  try {
    *thread = std::thread(std::move(run));
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot start another thread: ", error.what(),
                     "; the limit on processes and threads may be too low (ulimit -u)"));
  }
  return absl::OkStatus();
}

}  // namespace sluice
