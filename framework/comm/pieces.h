// The bytes that a pull names: boxes of a strided slot, one behind another. Pure.
#ifndef SLUICE_FRAMEWORK_COMM_PIECES_H_
#define SLUICE_FRAMEWORK_COMM_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/comm/comm_net.h"

namespace sluice {

// InvalidArgument where a piece leaves a slot of so many bytes, where pieces do not add up to
// request.bytes or have more bytes than the slot, or where a number is no size; nothing overflows
// on the way.
absl::Status CheckPieces(const PullRequest& request, int64_t slot_bytes);

// The parts of the slot that are contiguous, in order. For a request that
// CheckPieces has found good.
void ForEachRun(const PullRequest& request, absl::Span<const std::byte> slot,
                const std::function<void(absl::Span<const std::byte> run)>& visit);

// Whether they lie in a row as Gather would put them, and from which byte of the slot on.
bool LieInRow(const PullRequest& request, int64_t* offset);

// Copies them one behind another; `to` has request.bytes.
void Gather(const PullRequest& request, absl::Span<const std::byte> slot, std::byte* to);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMM_PIECES_H_
