// The proof that a program's tensors do not use each other's bytes, as proof.h is of its liveness:
// whoever takes over bytes begins after all who had them have ended, forced by the program's own
// waits and reuse edges, in every order that these leave open. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_PLAN_BYTES_H_
#define SLUICE_FRAMEWORK_PLAN_BYTES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/base/stop.h"
#include "framework/plan/program_index.h"
#include "framework/plan/proof.h"

namespace sluice {

// `variables`: by device, the bytes at its beginning that are its variables' own; missing: none.
// `certificate`: of the same program. FailedPrecondition names two buffers of the same bytes and
// who does not wait for whom, or what lies among variables; Cancelled where `stop` says so. Each
// reuse is looked at between the last buffer and the next alone: what came earlier follows, as
// whoever frees bytes has written them before.
absl::Status ProveBytes(const ProgramIndex& index, const Certificate& certificate,
                        absl::Span<const int64_t> variables, const Stop& stop = {});

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_PLAN_BYTES_H_
