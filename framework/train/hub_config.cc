#include "framework/train/hub_config.h"

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/checkpoint/file.h"
#include "framework/checkpoint/json.h"

namespace sluice {
namespace {

constexpr int64_t kConfigLimit = 1'000'000;

}  // namespace

absl::StatusOr<HubConfig> HubConfig::Read(const std::string& folder) {
  HubConfig config;
  config.path_ = absl::StrCat(folder, "/", kConfigFile);
  ASSIGN_OR_RETURN(const std::string text, ReadText(config.path_, kConfigLimit));
  RETURN_IF_ERROR(CheckJsonObject(text, config.path_));
  config.json_ = nlohmann::json::parse(text);
  return config;
}

absl::Status HubConfig::ReadIntegers(
    const std::vector<std::pair<const char*, int64_t*>>& keys) const {
  for (const auto& [key, to] : keys) {
    if (!json_.contains(key) || !json_[key].is_number_integer()) {
      return absl::DataLossError(absl::StrCat(path_, ": ", key, ": expected an integer"));
    }
    *to = json_[key].get<int64_t>();
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> HubConfig::Which(const char* key,
                                        const std::vector<nlohmann::json>& known) const {
  if (!json_.contains(key)) return 0;
  for (size_t i = 0; i < known.size(); ++i) {
    if (json_[key] == known[i]) return i;
  }
  return absl::InvalidArgumentError(absl::StrCat(path_, ": ", key, ": expected ", known[0].dump(),
                                                 ", got ", json_[key].dump().substr(0, 60)));
}

absl::Status HubConfig::Expect(const char* key, const std::vector<nlohmann::json>& known) const {
  return Which(key, known).status();
}

}  // namespace sluice
