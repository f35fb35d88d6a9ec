// The compiler: graphs in, a plan out. compile.cc reads as its table of contents.
#ifndef SLUICE_FRAMEWORK_COMPILER_COMPILE_H_
#define SLUICE_FRAMEWORK_COMPILER_COMPILE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/stop.h"
#include "framework/compiler/device_classes.h"
#include "framework/compiler/grid.h"
#include "framework/compiler/lower.h"
#include "framework/compiler/memory.h"
#include "framework/compiler/place.h"
#include "framework/compiler/select_sbp.h"
#include "framework/compiler/stations.h"
#include "framework/compiler/task_graph.h"
#include "framework/graph/graph.h"
#include "framework/machine/machine.h"
#include "framework/plan/plan.pb.h"
#include "framework/sbp/mesh.h"

namespace sluice {

struct CompileOptions {
  Mesh mesh;
  int64_t micro_batches = 1;  // of the first program, unless it says its own
  // Pipeline stages that stand on each device group of the axis "pipe": stage s of p groups stands
  // on group s % p, so that a group holds several pieces of the model.
  int64_t chunks = 1;
  int64_t script_length = 0;  // longest script; 0: no limit
  bool fuse = true;           // fuse.h, cut_losses.h, fuse_on_cards.h, make_again.h, join_calls.h
  int64_t largest_logits = int64_t{512} << 20;  // bytes a device, on cards (cut_losses.h)
  // An output takes the bytes of an input that ends there if it has so many. For fewer it is not
  // worth what it may cost: waits of the next step for whoever reads the output.
  int64_t least_taken = 1 << 20;
  CollectiveOptions collectives;  // of one rank
  Machine machine;
  // Asked once, when the bytes of each device are known (but for what is pulled from other ranks)
  // and before the plan grows with its devices. Where it says no, the plan stays one of
  // representatives: enough to explain what does not fit, at a small part of the cost. May be
  // empty.
  std::function<bool(const plan::Plan&)> fits;
  // The plan holds one device of each class (compiler/device_classes.h) instead of all: to know
  // time, bytes and proof of a cluster without its size in the cost. Nothing can run it, and the
  // plan says so: what representatives read of others they read of those devices' representatives,
  // and boxings have no regions.
  bool representatives_only = false;
  // Whose plan it is, and of how many ranks; the mesh's devices name theirs (Mesh::OverRanks). A
  // rank without devices has a plan without actors.
  int32_t rank = 0, ranks = 1;
  bool reasons = true;      // CompiledProgram keeps its tasks
  Stop stop;                // Cancelled soon after it says so; may be empty
  PhaseEnd phase_end;       // for benchmarks; may be empty
  StationObserver observe;  // for tests: sees what each phase hands on; may be empty
};

// What the phases made of one program, besides its part of the plan: the reasons that explain/
// shows. `tasks` and `actor_of` are of the devices that the plan holds; pulls come from no task.
struct CompiledProgram {
  std::string name;
  std::unique_ptr<const Graph> graph;  // cut into the stages of the grid, and fused
  Grid grid;
  SbpAssignment assignment;
  TaskGraph tasks;
  std::vector<int32_t> actor_of;     // by task
  std::vector<PackedDevice> packed;  // by device
  std::vector<int64_t> staging;      // bytes of what is pulled, by device; empty: none
};

struct Compilation {
  plan::Plan plan;
  Mesh mesh;
  DeviceClasses classes;  // of all programs
  std::vector<CompiledProgram> programs;
};

// Errors name the node's scope path, what was expected and got.
absl::StatusOr<Compilation> Compile(absl::Span<const ProgramGraph> programs,
                                    const CompileOptions& options);
// The plan alone, for those who ask for no reasons.
absl::StatusOr<plan::Plan> CompilePlan(absl::Span<const ProgramGraph> programs,
                                       const CompileOptions& options);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_COMPILE_H_
