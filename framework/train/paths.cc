#include "framework/train/paths.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace sluice {

bool PathExists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

std::string PathIn(absl::string_view folder, absl::string_view name) {
  return absl::StrCat(folder, "/", name);
}

}  // namespace sluice
