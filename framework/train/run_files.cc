#include "framework/train/run_files.h"

#include <filesystem>
#include <system_error>

namespace sluice {
namespace {

namespace fs = std::filesystem;

// Without a slash at its end.
fs::path Tidy(const fs::path& path) {
  const fs::path normal = path.lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

std::string RunAroundCheckpoints(const fs::path& checkpoints) {
  const std::string run = checkpoints.parent_path().string();
  return run.empty() ? "." : run;
}

}  // namespace

std::string RunFolderOf(const std::string& checkpoint) {
  const fs::path named = Tidy(checkpoint).parent_path();
  if (named.filename() == "checkpoints") return RunAroundCheckpoints(named);
  // "step-000004" in the present folder, ".", or a link.
  std::error_code error;
  const fs::path real =
      Tidy(fs::weakly_canonical(fs::absolute(checkpoint, error), error)).parent_path();
  if (real.filename() == "checkpoints") return RunAroundCheckpoints(real);
  return named.empty() ? "." : named.string();
}

}  // namespace sluice
