// Runs a rank's part of a plan on devices of this process. Workers own the actors of their streams:
// those of neighbouring devices share one, and I/O streams have workers of their own
// (actor/worker_layout.h). The session's thread alone calls a Runtime; it
// hands over steps and takes results, and schedules nothing: actors run when their tokens are
// there. Two steps run ahead of the session at most. In a step nothing is allocated and nothing
// looked up. The first error of a kernel wins: from then on kernels are skipped while the actors
// finish the protocol of the steps begun, so nothing hangs; the error is kept and every later call
// returns it.
#ifndef SLUICE_FRAMEWORK_RUNTIME_RUNTIME_H_
#define SLUICE_FRAMEWORK_RUNTIME_RUNTIME_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/actor/message.h"
#include "framework/base/stop.h"
#include "framework/comm/comm_net.h"
#include "framework/data/feed.h"
#include "framework/device/device.h"
#include "framework/kernels/collective_support.h"
#include "framework/kernels/device_support.h"
#include "framework/kernels/kernel.h"
#include "framework/plan/plan.pb.h"
#include "framework/runtime/trace.h"
#include "framework/tensor/array.h"

namespace sluice {

class Executor;
class VariableSnapshot;

struct RuntimeOptions {
  int workers = 0;             // that compute; as many more serve I/O. 0: min(devices, cores)
  int threads_per_device = 0;  // 0: cores / devices of the host, at least 1; shared by a worker's
  uint64_t seed = 1;           // of random ops
  bool check_nan = false;      // NaN or infinity in an output ends the step; costs a pass over each
  // CUDA streams are given stretches of instructions at once, from the second time on that operands
  // lie where they lie. Not with `trace`.
  bool cuda_graphs = true;
  // File for a Perfetto timeline, written at the end; of several ranks the first writes one of all,
  // if they end without an error, else each its own.
  std::string trace;
  // With `trace`: called once at the end with what each worker did. Its error is Close's. May be
  // null.
  std::function<absl::Status(const plan::Plan& plan, absl::Span<const WorkerTrace* const> workers)>
      traced;
  // What must hold of an instruction before its kernel is made; may be null.
  absl::Status (*check)(const KernelSpec& spec) = nullptr;
  // Makes the kernels of a CPU; asynchronous devices run the same later. Null devices have none:
  // they run the protocol alone and count, and what is fetched from them stays zero.
  absl::StatusOr<std::unique_ptr<Kernel>> (*prepare)(const KernelSpec& spec) = nullptr;
  // Devices of kind cuda and their kernels; null: this build has none.
  const DeviceSupport* cuda = nullptr;
  // What does the collectives of those; null: a plan that has some is refused.
  const CollectiveSupport* collectives = nullptr;
  AsyncOptions async;  // for tests: how asynchronous devices work
  // For tests: sees messages as they are sent, on the sender's thread, and may change them.
  void (*tamper)(Message* message) = nullptr;
  CommNet* net = nullptr;  // of a plan of several ranks; must outlive the runtime
  // When nothing has moved for so long while a step runs, it is logged who waits for whom; 0:
  // never.
  std::chrono::milliseconds wait_limit{0};
  // Ends the start soon after it says so: Cancelled. Asked by all threads; may be empty.
  Stop stop;
  // Called first on every thread that makes or runs kernels; may be null.
  void (*init_thread)() = nullptr;
  // For tests: runs the workers by turns, on the session's thread (executor.h); must outlive the
  // runtime. Null: they have threads.
  Executor* executor = nullptr;
};

struct StepResult {
  int program = 0;
  const std::vector<HostTensor>* fetches = nullptr;  // valid until the next Enqueue
};

// What one worker did, over all steps.
struct WorkerStatistics {
  int64_t instructions = 0;
  int64_t messages_sent = 0;  // to other workers
  int64_t sleeps = 0;         // times it found nothing to do
};

// What is to be answered to what each rank has said, by rank.
using Answer = std::function<absl::StatusOr<std::string>(absl::Span<const std::string>)>;

class Runtime {
 public:
  // Proves the plan, maps the devices' memory, prepares all kernels, starts the workers. Errors: a
  // plan that is unsound, of representatives only or would deadlock, tensors that share bytes, a
  // kernel that does not exist or refuses its instruction, memory that is not there; of several
  // ranks, one that has left or decided otherwise. It waits until all of them have started.
  static absl::StatusOr<std::unique_ptr<Runtime>> Start(plan::Plan plan,
                                                        const RuntimeOptions& options);
  // Closes it; an error of that is then only logged.
  virtual ~Runtime() = default;
  // Waits until nothing runs, then stops the workers, tells other ranks, which may go on, and
  // writes the trace. Unavailable if that cannot be written. Afterwards no step may be begun, and
  // the variables are still there.
  virtual absl::Status Close() = 0;

  virtual const plan::Plan& plan() const = 0;
  // Begins a step of a program; `step` is the number that random ops see. Feeds are in the order of
  // the program's ports and of their types; tensors are copied. Waits while two steps run, and
  // where another program ran, until it has ended.
  virtual absl::Status Enqueue(int program, absl::Span<const Feed> feeds, int64_t step) = 0;
  // The results of the oldest step not yet taken; waits for it. FailedPrecondition if none is.
  virtual absl::StatusOr<StepResult> Next() = 0;
  // Waits until no step runs.
  virtual void Quiesce() = 0;
  // The caller cannot go on: what runs is of no use, and every later call returns why. Of several
  // ranks all end with it. Does nothing where an error is kept already.
  virtual void Fail(const absl::Status& why) = 0;
  // The first error, or OK.
  virtual absl::Status status() const = 0;
  // The bytes of a variable's shard where they are the host's; null where another device has them.
  // This and both copies: only while nothing runs.
  virtual std::byte* VariableShard(int variable, int shard) = 0;
  // Between host memory and the shard, on whatever device it is.
  virtual void CopyIn(int variable, int shard, absl::Span<const std::byte> from) = 0;
  virtual void CopyOut(int variable, int shard, absl::Span<std::byte> to) const = 0;
  // Copies shards while steps go on. It must be finished before the runtime is destroyed.
  virtual VariableSnapshot* snapshot() = 0;
  // All ranks ask this at the same place, with a text each: the first one answers, and all return
  // what it said. Nobody returns before all have asked, so it is a barrier, too. Each asker is one
  // thread at a time, and kSaver need not be the session's. Unavailable: a rank has left.
  virtual absl::StatusOr<std::string> Ask(Asker asker, const std::string& mine,
                                          const Answer& answer) = 0;
  // What null devices did: instructions, arithmetic, bytes between devices. All together.
  virtual NullCounts null_counts() const = 0;

  virtual int workers() const = 0;
  virtual WorkerStatistics statistics(int worker) const = 0;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_RUNTIME_RUNTIME_H_
