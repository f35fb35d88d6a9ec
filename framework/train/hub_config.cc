#include "framework/train/hub_config.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/checkpoint/file.h"
#include "framework/checkpoint/json.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

constexpr int64_t kConfigLimit = 1'000'000;

}  // namespace

absl::StatusOr<HubConfig> HubConfig::Read(const std::string& folder) {
  HubConfig config;
  config.path_ = absl::StrCat(folder, "/", kConfigFile);
  ASSIGN_OR_RETURN(const std::string text, ReadText(config.path_, kConfigLimit));
  RETURN_IF_ERROR(CheckJsonObject(text, config.path_));
  const nlohmann::json json = nlohmann::json::parse(text);
  for (const auto& [key, value] : json.items()) config.values_[key] = value.dump();
  return config;
}

absl::Status HubConfig::ReadIntegers(
    const std::vector<std::pair<const char*, int64_t*>>& keys) const {
  for (const auto& [key, to] : keys) {
    const auto found = values_.find(key);
    if (found == values_.end() || !absl::SimpleAtoi(found->second, to)) {
      return absl::DataLossError(absl::StrCat(path_, ": ", key, ": expected an integer"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> HubConfig::Which(const char* key,
                                        const std::vector<std::string>& known) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return 0;
  for (size_t i = 0; i < known.size(); ++i) {
    if (found->second == known[i]) return i;
  }
  return absl::InvalidArgumentError(absl::StrCat(path_, ": ", key, ": expected ", known[0],
                                                 ", got ", found->second.substr(0, 60)));
}

absl::Status HubConfig::Expect(const char* key, const std::vector<std::string>& known) const {
  return Which(key, known).status();
}

double NumberAmong(const std::map<std::string, std::string>& options, const std::string& name,
                   double otherwise) {
  const auto found = options.find(name);
  double number = 0;
  return found != options.end() && absl::SimpleAtod(found->second, &number) ? number : otherwise;
}

}  // namespace sluice
