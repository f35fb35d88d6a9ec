#include "framework/train/app_surroundings.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "framework/base/process.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// The path of what Bazel lays out for the program: where `bazel run` and tests start it, or beside
// the program. Empty if it is in neither place.
std::string Bundled(const std::string& name) {
  if (name.empty()) return "";
  std::error_code error;
  const std::string program = fs::read_symlink("/proc/self/exe", error).string();
  for (const std::string& folder :
       {fs::current_path(error).string(), program + ".runfiles/sluice"}) {
    if (fs::exists(folder + "/" + name, error)) return folder + "/" + name;
  }
  return "";
}

// Where //tools:dataset puts what it fetches.
std::string DatasetsFolder() {
  const char* own = getenv("SLUICE_DATASETS");
  if (own != nullptr && *own != '\0') return own;
  const std::string home = HomeFolder();
  return home.empty() ? "" : absl::StrCat(home, "/.cache/sluice/datasets");
}

}  // namespace

AppSurroundings SurroundingsOf(const std::string& bundled) {
  AppSurroundings surroundings;
  surroundings.bundled = Bundled(bundled);
  surroundings.datasets = DatasetsFolder();
  surroundings.environment = [](const char* name) { return getenv(name); };
  surroundings.now = absl::FormatTime("%Y%m%d-%H%M%S", absl::Now(), absl::LocalTimeZone());
  return surroundings;
}

}  // namespace sluice
