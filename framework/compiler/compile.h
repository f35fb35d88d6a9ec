// The compiler: graphs in, a plan out. compile.cc reads as its table of contents.
#ifndef SLUICE_FRAMEWORK_COMPILER_COMPILE_H_
#define SLUICE_FRAMEWORK_COMPILER_COMPILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/compiler/explanation.h"
#include "framework/compiler/place.h"
#include "framework/graph/graph.h"
#include "framework/machine/machine.h"
#include "framework/plan/plan.pb.h"
#include "framework/sbp/mesh.h"

namespace sluice {

struct CompileOptions {
  Mesh mesh;
  int64_t micro_batches = 1;  // of the first program, unless it says its own
  int64_t script_length = 0;  // longest script; 0: no limit
  Machine machine;
  int64_t memory_limit = 0;  // bytes a device; 0: none
  // The plan holds one device of each class (compiler/device_classes.h) instead of all: to know
  // time, bytes and proof of a cluster without its size in the cost. Nothing can run it, and the
  // plan says so: what representatives read of others they read of those devices' representatives,
  // and boxings have no regions.
  bool representatives_only = false;
  PhaseEnd phase_end;  // for benchmarks; may be empty
};

// `explanation`, if not null and empty, gets the choices and their reasons. Errors name the node's
// scope path, what was expected and got.
absl::StatusOr<plan::Plan> Compile(absl::Span<const ProgramGraph> programs,
                                   const CompileOptions& options, Explanation* explanation);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_COMPILE_H_
