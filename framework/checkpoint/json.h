// JSON out of files that come from anywhere. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_CHECKPOINT_JSON_H_
#define SLUICE_FRAMEWORK_CHECKPOINT_JSON_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace sluice {

// An object that nests at most 16 deep and has no key twice, in n log n of its length. DataLoss,
// which begins with `file`, for any other text.
absl::StatusOr<nlohmann::json> ParseJsonObject(absl::string_view text, absl::string_view file);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_CHECKPOINT_JSON_H_
