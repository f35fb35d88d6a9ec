// What the links between processes of a job cost, measured over a connection of theirs: a pair of
// ranks for each kind of link, before the net has the connections.
#ifndef SLUICE_FRAMEWORK_TRAIN_LINK_PROBE_H_
#define SLUICE_FRAMEWORK_TRAIN_LINK_PROBE_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/machine/machine.h"
#include "framework/wire/connection.h"

namespace sluice {

// The two ranks that stand for all between which the link is of that kind, the lower one first;
// none where there is no such link between processes. One rank may be in two pairs.
std::optional<std::pair<int32_t, int32_t>> ProbePair(absl::Span<const int32_t> host_of_rank,
                                                     LinkKind kind);

// Both ends call it together. The one with `asks` measures: half the median of round trips of small
// messages, and the best of some streams, each long enough to be told from a round trip. Takes a
// tenth of a second or, where a round trip is long, some dozens of them. InvalidArgument: the other
// end asks for more, or answers otherwise, than one that measures.
absl::StatusOr<Link> MeasureLink(Connection* connection, bool asks, Deadline deadline);

// Of what was measured, between two ranks. InvalidArgument: it cannot have been measured.
absl::Status SendLink(Connection* connection, const Link& link, Deadline deadline);
absl::StatusOr<Link> ReceiveLink(Connection* connection, Deadline deadline);

// To one of 1, 2 and 5 times a power of ten, by ratio: so coarse that one measurement and the next
// seldom differ.
Link RoundLink(const Link& link);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_LINK_PROBE_H_
