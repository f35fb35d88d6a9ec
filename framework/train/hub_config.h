// The config.json that lies beside weights in a folder, as Hugging Face's hub has it: sizes, and
// what else makes a model another one. One thread.
#ifndef SLUICE_FRAMEWORK_TRAIN_HUB_CONFIG_H_
#define SLUICE_FRAMEWORK_TRAIN_HUB_CONFIG_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace sluice {

constexpr char kConfigFile[] = "config.json";

class HubConfig {
 public:
  // Of a folder. DataLoss: it is no JSON object.
  static absl::StatusOr<HubConfig> Read(const std::string& folder);

  // DataLoss names the file and the key that is no integer.
  absl::Status ReadIntegers(const std::vector<std::pair<const char*, int64_t*>>& keys) const;
  // InvalidArgument where a key has a value that is none of `known`. What is not said has the
  // first, which Hugging Face gives it.
  absl::Status Expect(const char* key, const std::vector<nlohmann::json>& known) const;
  // The same for the first of `known` that a key has.
  absl::StatusOr<size_t> Which(const char* key, const std::vector<nlohmann::json>& known) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  nlohmann::json json_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_HUB_CONFIG_H_
