// JSON out of files that come from anywhere. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_CHECKPOINT_JSON_H_
#define SLUICE_FRAMEWORK_CHECKPOINT_JSON_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sluice {

// Is `text` an object that nests at most 16 deep and has no key twice? Looks at it before anything
// is built of it, in n log n of its length; afterwards it parses. DataLoss, which begins with
// `file`, for any other text.
absl::Status CheckJsonObject(absl::string_view text, absl::string_view file);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_CHECKPOINT_JSON_H_
