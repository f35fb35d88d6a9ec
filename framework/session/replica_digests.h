// What ranks tell each other of the shards that they hold, so that replicas of a variable that
// differ are found. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_SESSION_REPLICA_DIGESTS_H_
#define SLUICE_FRAMEWORK_SESSION_REPLICA_DIGESTS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace sluice {

struct ReplicaDigest {
  int32_t variable = 0;  // of the plan's
  std::string box;       // the part of it that the shard is: BoxToString
  uint64_t digest = 0;   // of its bytes
  int32_t device = 0;
};

// A line of the text that a rank tells.
std::string ReplicaLine(const ReplicaDigest& replica);

// Whether shards of the same box of a variable have the same digest, as the texts of all ranks say.
// DataLoss names the variable and the first two devices that differ; InvalidArgument the rank whose
// text is none, which any rank may send: of what it says the error has no more than a line.
absl::Status CompareReplicas(absl::Span<const std::string> texts,
                             absl::Span<const absl::string_view> variables);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_SESSION_REPLICA_DIGESTS_H_
