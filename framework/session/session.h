// A Session compiles programs over one set of variables, starts the workers, and runs steps.
// One thread (the user's) calls it, but AgreeOnSave and FinishSnapshot. After a kernel's error
// every call but status() returns that error: the torn state is neither stepped nor saved.
#ifndef SLUICE_FRAMEWORK_SESSION_SESSION_H_
#define SLUICE_FRAMEWORK_SESSION_SESSION_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/actor/worker_policy.h"
#include "framework/base/stop.h"
#include "framework/data/feed.h"
#include "framework/graph/graph.h"
#include "framework/kernels/device_support.h"
#include "framework/machine/machine.h"
#include "framework/tensor/array.h"
#include "framework/tensor/shape.h"

namespace sluice {

class CommNet;
struct CollectiveSupport;

struct SessionOptions {
  std::string mesh = "data=1";  // space and stage axes, then kinds of devices if they are no CPUs
  int64_t micro_batches = 1;    // of programs[0], unless it says its own; must divide the batch
  uint64_t seed = 1;            // of initial values and dropout
  int64_t script_length = 0;    // longest script; 0: as long as possible; 1: the paper's actor
  bool fuse = true;             // ops that pass over the same bytes are one; changes no value but
                                // of products in bf16 on cards (compiler/fuse_on_cards.h)
  bool cuda_graphs = true;      // CUDA devices launch runs of instructions at once
  bool check_nan = false;       // an output with NaN or infinity ends the step; costs a pass over
                                // each output
  int workers = 0;              // that compute (runtime/runtime.h); 0: min(devices, cores)
  int threads_per_device = 0;   // 0: cores / devices of the host, at least 1; shared by a worker's
  std::string trace;            // file for a Perfetto timeline, written when the session ends
  std::string explain_html;     // file for a page about the plan; with `trace`, it is written again
                                // when the session ends, with what was measured
  // When nothing has moved for so long while a step runs, it is logged who waits for whom; 0:
  // never.
  std::chrono::milliseconds wait_limit{10000};
  // Of CUDA devices, where nobody has given figures of its own (Machine::Cpu()), the published
  // peaks of the first card that is found count. Ranks have to have the same.
  Machine machine = Machine::Cpu();
  Stop stop;                 // ends the start soon after it says so: Cancelled; may be empty
  int64_t memory_limit = 0;  // bytes of this rank's devices together; 0: this machine's memory
  int64_t device_memory_limit = 0;  // bytes of each; 0: no other than that
  // What runs CUDA devices; null: what this build has, if any.
  const DeviceSupport* cuda = nullptr;
  // What does their collectives; null: as `cuda`.
  const CollectiveSupport* collectives = nullptr;
  // Sums over CUDA devices are those of a CPU, bit by bit: copies and folds, instead of NCCL.
  bool reproducible = false;
  // Sums of bf16 over more than two CUDA devices are rounded at each, as NCCL makes them; else they
  // are folds, in f32.
  bool bf16_sums = false;
  // Joins this rank to the others, over which the mesh's devices are dealt out in order; must
  // outlive the session. Null: there is one rank. All ranks call the same things of their sessions
  // in the same order; the first one has the results of steps, the others get none. A net that
  // another session has had is FailedPrecondition.
  CommNet* net = nullptr;
};

// By name; of a batch too large for one place, rows of a data set (data/feed.h).
using Feeds = std::vector<std::pair<std::string, Feed>>;
using Fetches = std::map<std::string, HostTensor, std::less<>>;

struct VariableInfo {
  std::string name;
  DType dtype;
  Shape shape;
  std::string layout;  // for people: "stage 0, data:B model:S1"
};

// A part of a variable that this rank's devices hold.
struct VariableBox {
  Box box;
  bool saved = false;  // of all that hold it, this rank is the one that saves it
};

// Where a box of a variable is to be copied: `to` has room for it.
struct SnapshotBox {
  std::string variable;
  Box box;
  std::byte* to = nullptr;
};

class Session {
 public:
  // Devices of one process that a session starts: more than the threads that serve them could be
  // told apart from, and a plan that still fits beside what it plans. More can be explained.
  static constexpr int64_t kMostDevices = 1024;
  // Steps that may be begun before the results of the first are taken; more make Step wait.
  static constexpr int kStepsAhead = sluice::kStepsAhead;

  // Programs share variables by name; the first fixes their layout. Errors: of the graphs (with
  // scope path), of the mesh or its number of devices, "does not fit" with the ten largest tensors
  // of the peak; Cancelled where options.stop says so.
  static absl::StatusOr<std::unique_ptr<Session>> Start(absl::Span<const ProgramGraph> programs,
                                                        const SessionOptions& options);
  // What Start would run, for people: choices, boxings with bytes, actors, memory, predicted time.
  // Compiled, and not started; what does not fit into memory ends with Start's error. Writes
  // explain_html, too.
  static absl::StatusOr<std::string> ExplainPlan(absl::Span<const ProgramGraph> programs,
                                                 const SessionOptions& options);
  // Closes it; an error of that is then only logged.
  virtual ~Session() = default;
  // Ends it before it is destroyed: waits until nothing runs, stops the workers, writes `trace` and
  // what it adds to `explain_html`. Unavailable if one of them cannot be written. Afterwards
  // nothing may be asked but status().
  virtual absl::Status Close() = 0;

  // Enqueues one step. Tensors are copied; rows of a data set are read while the step runs, by the
  // devices that need them, and an error there is the step's. Blocks while kStepsAhead steps run.
  // Errors: unknown program or feed, a feed of another type than the graph's, an earlier kernel's
  // error. Another program than the last one's waits until that has ended.
  virtual absl::Status Step(absl::string_view program, const Feeds& feeds) = 0;
  // The results of the oldest step not yet taken; waits for it.
  absl::StatusOr<Fetches> Next();
  // The same into `fetches`, whose memory is used again where names and types are as before.
  virtual absl::Status Next(Fetches* fetches) = 0;
  virtual absl::Status status() const = 0;
  // The caller cannot go on, for a reason of its own: every later call returns it, and so do those
  // of all other ranks, which would only learn that this one has gone. Does nothing where an error
  // is kept already.
  virtual void Fail(const absl::Status& why) = 0;

  // Logical values; they wait until nothing runs.
  virtual std::vector<VariableInfo> variables() const = 0;
  // Of several ranks, Read is FailedPrecondition where this one does not hold all of the variable,
  // and Write sets what this one holds.
  virtual absl::StatusOr<HostTensor> Read(absl::string_view variable) = 0;
  virtual absl::Status Write(absl::string_view variable, const HostTensor& value) = 0;
  // The same by box: no rank needs more of a variable than it holds. A value has the shape of the
  // box, which must be one of boxes(). Each box once.
  virtual absl::StatusOr<std::vector<VariableBox>> boxes(absl::string_view variable) const = 0;
  virtual absl::StatusOr<HostTensor> ReadBox(absl::string_view variable, const Box& box) = 0;
  virtual absl::Status WriteBox(absl::string_view variable, const Box& box,
                                const HostTensor& value) = 0;
  // What snapshots copy, each time to the same place: those of boxes(), or of a variable that this
  // rank holds all of, the whole.
  virtual absl::Status PrepareSnapshots(absl::Span<const SnapshotBox> boxes) = 0;
  // Copies them as they stand, while steps go on: it waits until nothing runs, and for the copy of
  // what is not in the host's memory, but for no other. Finishes the snapshot before.
  virtual absl::Status BeginSnapshot() = 0;
  // Any thread: returns when all is copied. An error of a step that came later changes nothing.
  virtual void FinishSnapshot() = 0;
  // Of several ranks: each gives a text, rank 0 judges them all, and all return what it found. A
  // barrier, too. A single rank judges its own.
  virtual absl::Status Agree(
      const std::string& mine,
      const std::function<absl::Status(absl::Span<const std::string>)>& judge) = 0;
  // The same for whoever saves while steps go on, on any thread, one at a time: its questions are
  // numbered apart, so that it and the user's thread need not ask in one order. A rank that leaves
  // ends the waiting: Unavailable.
  virtual absl::Status AgreeOnSave(
      const std::string& mine,
      const std::function<absl::Status(absl::Span<const std::string>)>& judge) = 0;
  // What the first rank says, on all of them, or why it cannot; of others `mine` counts for
  // nothing. All call it together.
  virtual absl::StatusOr<std::string> Share(const absl::StatusOr<std::string>& mine) = 0;
  // Bitwise digest of every replica of a variable's shards, on whichever ranks they are: equal
  // shards must give equal digests. All ranks ask together;
  // DataLoss names the variable and the devices where they differ.
  virtual absl::Status CheckReplicas() = 0;

  // The step counter that random ops see (steps of programs[0] so far); set on resume.
  virtual void set_step(int64_t step) = 0;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_SESSION_SESSION_H_
