// The text of a checkpoint's manifest.json: written sealed, by a digest of everything else in it,
// and read strictly, as files come from anywhere. Used by checkpoint.cc and by what tests it.
#ifndef SLUICE_FRAMEWORK_CHECKPOINT_MANIFEST_H_
#define SLUICE_FRAMEWORK_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/checkpoint/stored_boxes.h"

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
  // What the evaluation at this step gave, by metric; empty where there was none. Finite.
  std::map<std::string, double> evaluation = {};
};

struct Manifest {
  CheckpointMeta meta;
  std::string digest = {};  // of what was parsed: all else that it says
  // By tensor. Of whole tensors in one file there are digests of the same names; of parts there are
  // boxes of the same names.
  std::map<std::string, std::string> types = {}, digests = {};
  int32_t parts = 0;  // 0: one file of whole tensors
  std::map<std::string, std::vector<StoredBox>> boxes = {};
  // Of the manifest of a part alone, before all are joined: which one it is. Else the boxes hold
  // every element of every tensor once.
  std::optional<int32_t> part = std::nullopt;
};

// Do the boxes of a manifest that parts were joined to hold each element of their tensors once?
absl::Status CheckCover(const Manifest& manifest);
std::string PrintManifest(const Manifest& manifest);
// `file` begins every error. What is parsed is sound: boxes lie inside their tensors, are of parts
// that there are, and hold what they should. DataLoss: text that is no manifest, or not the one
// that was sealed.
absl::StatusOr<Manifest> ParseManifest(absl::string_view text, absl::string_view file);
// The same manifest with the digest that it should have; an error where `text` is no JSON object.
absl::StatusOr<std::string> SealManifest(absl::string_view text, absl::string_view file);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_CHECKPOINT_MANIFEST_H_
