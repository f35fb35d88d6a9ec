// How fast RDMA brings bytes between two ranks, measured when a job starts, before the net has
// their connections.
#ifndef SLUICE_FRAMEWORK_COMM_VERBS_PROBE_H_
#define SLUICE_FRAMEWORK_COMM_VERBS_PROBE_H_

#include <optional>

#include "absl/status/statusor.h"
#include "framework/comm/verbs.h"
#include "framework/wire/connection.h"

namespace sluice {

// Both ends call it together. The one with `asks` reads the other's memory, and gets the bytes a
// second of the best of some reads, each long enough to be told from what a read costs; the other
// gets 0. None, to both: one of them has no such device, or reads do not work between the two; it
// is logged why. Errors are the connection's. InvalidArgument: the other end says what one that
// measures does not.
absl::StatusOr<std::optional<double>> MeasureReads(Connection* connection,
                                                   const VerbsOptions& options, bool asks,
                                                   Deadline deadline);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMM_VERBS_PROBE_H_
