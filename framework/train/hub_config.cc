#include "framework/train/hub_config.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/checkpoint/file.h"
#include "framework/checkpoint/json.h"
#include "framework/train/foreign_weights.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kConfigLimit = 1'000'000;

// A folder without the file is most often another folder than was meant.
absl::Status CheckFolder(const std::string& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) {
    return absl::NotFoundError(
        absl::StrCat(folder, ": expected a folder with ", kConfigFile, " and weights, got none"));
  }
  if (!fs::is_directory(folder, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": expected a folder with ", kConfigFile, " and weights, got a file"));
  }
  if (fs::exists(absl::StrCat(folder, "/", kConfigFile), error)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(folder));
  return absl::NotFoundError(absl::StrCat(folder, ": expected ", kConfigFile,
                                          " as transformers writes it, got ",
                                          FolderContents(names)));
}

}  // namespace

absl::StatusOr<HubConfig> HubConfig::Read(const std::string& folder) {
  HubConfig config;
  config.path_ = absl::StrCat(folder, "/", kConfigFile);
  RETURN_IF_ERROR(CheckFolder(folder));
  ASSIGN_OR_RETURN(const std::string text, ReadText(config.path_, kConfigLimit));
  RETURN_IF_ERROR(CheckJsonObject(text, config.path_));
  const nlohmann::json json = nlohmann::json::parse(text);
  for (const auto& [key, value] : json.items()) config.values_[key] = value.dump();
  return config;
}

absl::StatusOr<std::vector<std::string>> HubConfig::Strings(const char* key) const {
  const auto found = values_.find(key);
  std::vector<std::string> strings;
  if (found == values_.end() || found->second == "null") return strings;
  const nlohmann::json json = nlohmann::json::parse(found->second);
  for (const nlohmann::json& value : json) {
    if (json.is_array() && value.is_string()) strings.push_back(value.get<std::string>());
  }
  if (json.is_array() && strings.size() == json.size()) return strings;
  return absl::DataLossError(absl::StrCat(path_, ": ", key, ": expected a list of strings, got ",
                                          found->second.substr(0, 60)));
}

absl::StatusOr<std::vector<std::string>> HubConfig::Labels() const {
  const auto found = values_.find("id2label");
  if (found == values_.end() || found->second == "null") return std::vector<std::string>();
  const nlohmann::json json = nlohmann::json::parse(found->second);
  const auto error = [&](absl::string_view got) {
    return absl::DataLossError(absl::StrCat(
        path_, ": id2label: expected a name for each class from 0 on, each once, got ", got));
  };
  if (!json.is_object()) return error(found->second.substr(0, 60));
  std::vector<std::string> labels;
  std::set<std::string> names;
  bool made_up = true;
  for (size_t i = 0; i < json.size(); ++i) {
    const auto label = json.find(absl::StrCat(i));
    if (label == json.end() || !label->is_string()) return error(absl::StrCat("none of ", i));
    labels.push_back(label->get<std::string>());
    if (!names.insert(labels.back()).second) return error(labels.back() + " twice");
    made_up = made_up && labels.back() == absl::StrCat("LABEL_", i);
  }
  return made_up ? std::vector<std::string>() : labels;
}

absl::Status HubConfig::ExpectModel(const std::string& type,
                                    const std::vector<std::string>& architectures) const {
  const absl::Status same = Expect("model_type", {absl::StrCat("\"", type, "\"")});
  if (!same.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(same.message(), "; a model of another kind cannot be imported here"));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> saved_as, Strings("architectures"));
  for (const std::string& name : saved_as) {
    if (std::find(architectures.begin(), architectures.end(), name) != architectures.end())
      continue;
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": architectures: expected ", absl::StrJoin(architectures, ", "),
                     ", got ", name, "; a model for another task cannot be imported here"));
  }
  return Expect("quantization_config", {"null"});
}

absl::Status HubConfig::ReadIntegers(
    const std::vector<std::pair<const char*, int64_t*>>& keys) const {
  for (const auto& [key, to] : keys) {
    const auto found = values_.find(key);
    if (found == values_.end() || !absl::SimpleAtoi(found->second, to)) {
      return absl::DataLossError(
          absl::StrCat(path_, ": ", key, ": expected an integer, got ",
                       found == values_.end() ? "none" : found->second.substr(0, 60)));
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
