// The text of a checkpoint's manifest.json: written sealed, by a digest of everything else in it,
// and read strictly, as files come from anywhere. Used by checkpoint.cc and by what tests it.
#ifndef SLUICE_FRAMEWORK_CHECKPOINT_MANIFEST_H_
#define SLUICE_FRAMEWORK_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

// By what data is known again.
struct DataRecord {
  int64_t bytes = 0;
  std::string digest;
  friend bool operator==(const DataRecord&, const DataRecord&) = default;
};

struct CheckpointMeta {
  int64_t step = 0;
  uint64_t seed = 0;
  int64_t samples = 0;                          // seen so far: the position in the data
  std::map<std::string, std::string> options;   // of the run, for people and for comparing
  std::map<std::string, DataRecord> data = {};  // that the run learns from; none where nobody knew
};

struct Manifest {
  CheckpointMeta meta;
  std::map<std::string, std::string> types, digests;  // by tensor; both name the same ones
};

std::string PrintManifest(const Manifest& manifest);
// `file` begins every error. DataLoss: text that is no manifest, or not the one that was sealed.
absl::StatusOr<Manifest> ParseManifest(absl::string_view text, absl::string_view file);
// The same manifest with the digest that it should have; an error where `text` is no JSON object.
absl::StatusOr<std::string> SealManifest(absl::string_view text, absl::string_view file);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_CHECKPOINT_MANIFEST_H_
