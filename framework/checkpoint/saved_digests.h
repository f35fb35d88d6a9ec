// What a checkpoint's manifest says of tensors as they are written: a digest of each. A tensor with
// a value that is no finite number ends the writing, so that no state that cannot be trained on
// takes the place of one that can. One thread.
#ifndef SLUICE_FRAMEWORK_CHECKPOINT_SAVED_DIGESTS_H_
#define SLUICE_FRAMEWORK_CHECKPOINT_SAVED_DIGESTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/base/hash.h"
#include "framework/checkpoint/safetensors.h"

namespace sluice {

class SavedDigests {
 public:
  // The next piece of a tensor, which begins at element `first`; each tensor begins with its first
  // piece, and an empty one has one without elements. OutOfRange names the tensor, its element and
  // the value that is not finite.
  absl::Status Add(const TensorEntry& entry, int64_t first, absl::Span<const std::byte> piece);
  // To be passed to WriteSafetensors, which this object must outlive.
  PieceObserver Observer();

  // By tensor, in the order in which they were added: StableHash of its bytes, as text.
  std::vector<std::string> TakeDigests() &&;

 private:
  void Finish();

  std::unique_ptr<StableByteHasher> hasher_;  // of the tensor under way
  std::vector<std::string> digests_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_CHECKPOINT_SAVED_DIGESTS_H_
