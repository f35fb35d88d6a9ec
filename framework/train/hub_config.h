// The config.json that lies beside weights in a folder, as Hugging Face's hub has it: sizes, and
// what else makes a model another one. One thread.
#ifndef SLUICE_FRAMEWORK_TRAIN_HUB_CONFIG_H_
#define SLUICE_FRAMEWORK_TRAIN_HUB_CONFIG_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice {

constexpr char kConfigFile[] = "config.json";

class HubConfig {
 public:
  // Reads that of a folder. NotFound names what the folder has instead; DataLoss: it is no JSON
  // object.
  static absl::StatusOr<HubConfig> Read(const std::string& folder);

  // Is the model of this kind, and by the class that it was saved as one of these? Asked before
  // anything else, as another kind has other keys. A key that is missing passes. InvalidArgument
  // names the key and what it says.
  absl::Status ExpectModel(const std::string& type,
                           const std::vector<std::string>& architectures) const;
  // Strings of a list, or none where the key is null or missing. DataLoss: it is something else.
  absl::StatusOr<std::vector<std::string>> Strings(const char* key) const;
  // The names of classes in the order of their rows, as id2label has them; none where it is missing
  // or has only the names that transformers makes up, LABEL_0 .. . DataLoss: it does not have each
  // id and each name once.
  absl::StatusOr<std::vector<std::string>> Labels() const;

  // DataLoss names the file and the key that is no integer.
  absl::Status ReadIntegers(const std::vector<std::pair<const char*, int64_t*>>& keys) const;
  // Which of `known`, values as JSON writes them, a key has. What is not said has the first, which
  // Hugging Face gives it. InvalidArgument: it has none of them.
  absl::StatusOr<size_t> Which(const char* key, const std::vector<std::string>& known) const;
  absl::Status Expect(const char* key, const std::vector<std::string>& known) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::map<std::string, std::string> values_;  // by key, as JSON writes them
};

// A number among a checkpoint's options; `otherwise` where it is not.
double NumberAmong(const std::map<std::string, std::string>& options, const std::string& name,
                   double otherwise);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_HUB_CONFIG_H_
