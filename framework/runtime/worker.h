// A worker is a thread that owns the actors of some devices' streams. It delivers messages and runs
// instructions whose tokens are there; what is ready follows from messages, never from a search.
// Messages between its own actors are calls; those of other workers come through a queue. Having
// nothing to do, it spins a little, then sleeps.
//
// On streams that run late a worker launches, and messages carry fences. A stream of that kind with
// an order waits for them itself, so its actor may have the message at once; for all others the
// worker holds it until the fence is done. A step has ended when its streams are through.
#ifndef SLUICE_FRAMEWORK_RUNTIME_WORKER_H_
#define SLUICE_FRAMEWORK_RUNTIME_WORKER_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "framework/actor/program_state.h"
#include "framework/actor/stream_priority.h"
#include "framework/actor/worker_policy.h"
#include "framework/base/queue.h"
#include "framework/device/cpu_thread_pool.h"
#include "framework/device/device.h"
#include "framework/kernels/kernel.h"
#include "framework/runtime/executor.h"
#include "framework/runtime/loaded_program.h"
#include "framework/runtime/rank_link.h"
#include "framework/runtime/runtime.h"
#include "framework/runtime/step_tracker.h"
#include "framework/runtime/stretches.h"
#include "framework/runtime/trace.h"
#include "framework/runtime/waits.h"

namespace sluice {

// A program with its actors, and which worker each belongs to. Workers share it; each touches its
// own actors only.
struct RunningProgram {
  std::unique_ptr<LoadedProgram> loaded;
  std::unique_ptr<ProgramState> state;
  std::vector<int32_t> worker_of;  // by actor
  std::vector<int32_t> priority;   // by actor
};

class Worker final : public Executor::Task {
 public:
  struct Setup {
    int index = 0;
    bool computes = true;  // or serves I/O streams
    bool spins = true;     // a little, before it sleeps
    KernelOptions kernels;
    uint64_t seed = 0;
    bool trace = false;
    bool captures = true;  // stretches of instructions, on streams that can
    const std::vector<std::unique_ptr<Device>>* devices = nullptr;
    std::vector<RunningProgram>* programs = nullptr;
    StepTracker* tracker = nullptr;
    RankLink* link = nullptr;  // null: there is one rank
    const std::vector<std::unique_ptr<Worker>>* peers = nullptr;
    void (*init_thread)() = nullptr;
    void (*tamper)(Message* message) = nullptr;
    Executor* executor = nullptr;  // null: a thread runs the worker
  };

  explicit Worker(Setup setup);
  ~Worker() override { Stop(); }

  // Starts the thread, if it has one; it prepares the kernels of its actors. WaitPrepared gives the
  // first error, that it did not start among them.
  void Start();
  absl::Status WaitPrepared();
  // Ends the thread; nothing may run any more.
  void Stop();

  // Any thread.
  void Send(int program, const Message& message) { mailbox_.Push({kMessage, program, message}); }
  void BeginStep(int program) { mailbox_.Push({kStep, program, {}}); }
  // The other end of an edge has what this remote actor's firing reads.
  void RemoteEnded(int program, int32_t actor) {
    mailbox_.Push({kRemoteEnded, program, {Message::Kind::kAck, actor, 0, 0}});
  }
  // A fence may be done.
  void Wake() { mailbox_.Push({kWake, 0, {}}); }

  // The executor.
  bool HasWork() const override { return !mailbox_.Empty() || HasReady(); }
  void Turn() override;
  std::string WaitsFor() const override;

  WorkerStatistics statistics() const {
    return {instructions_.load(), messages_sent_.load(), sleeps_.load()};
  }
  // The instruction that it runs at the moment; program -1: it waits. Of one that is just begun the
  // step may be that of the one before.
  struct Running {
    int32_t program = -1, instance = 0;
    int64_t step = 0;
  };
  Running running() const {
    const int64_t instance = running_.load(std::memory_order_relaxed);
    return {static_cast<int32_t>(instance >> 32) - 1, static_cast<int32_t>(instance & 0xffffffff),
            running_step_.load(std::memory_order_relaxed)};
  }
  // Asks where its actors stand, and gives the answer to the question with that number, by program.
  // There is none as long as it runs an instruction.
  void AskStates(int64_t number) {
    mailbox_.Push({kReport, 0, {Message::Kind::kReq, 0, 0, number}});
  }
  std::optional<std::vector<std::vector<ActorState>>> States(int64_t number);
  // Only after Stop.
  const WorkerTrace& trace() const { return trace_; }

 private:
  enum MailboxItemKind : int32_t { kMessage, kStep, kRemoteEnded, kWake, kReport, kStop };
  struct MailboxItem {
    MailboxItemKind kind;
    int32_t program;
    Message message;
  };
  struct Ready {
    int32_t program, actor;
  };
  // First in, first out; room for every actor, a power of two.
  struct ReadyList {
    std::vector<Ready> items;
    uint32_t first = 0, end = 0;
    bool empty() const { return first == end; }
    void Push(Ready ready) { items[end++ & (items.size() - 1)] = ready; }
    Ready Pop() { return items[first++ & (items.size() - 1)]; }
  };
  // A message that its receiver may not see before the fence is done.
  struct Held {
    int32_t program;
    Message message;
  };
  // A step whose actors here are through, though their streams may not be.
  struct StepEnd {
    int32_t program;
    int64_t step;
  };
  // A stretch, and the captures of its variants; -1: not yet.
  struct KeptStretch {
    Stretch stretch;
    std::vector<int32_t> captures;
  };
  struct Own {  // of one program
    LoadedProgram* loaded = nullptr;
    ProgramState* state = nullptr;
    const int32_t *worker_of = nullptr, *priority = nullptr;  // by actor of the program
    std::vector<int32_t> actors, streams;
    std::vector<int32_t> readers;  // remote actors that read here; among `actors` they are not
    // By actor of the program.
    std::vector<uint8_t> remote, pulls;
    std::vector<uint8_t> queued;        // by actor of the program: it stands in a ready list
    std::vector<Stream*> opened;        // by stream of the program; null: another worker's
    std::vector<uint8_t> takes_fences;  // by stream of the program: it runs late, in a proven order
    MessageList grants;                 // of step 0
    int64_t steps = 0;                  // begun
    // Of the steps in flight: actors that have not yet done their part.
    int32_t actors_left[kStepsAhead] = {};
    std::vector<Fence> end_fences[kStepsAhead];  // by late stream: what the step's end waits for
    std::vector<KeptStretch> stretches;
    std::vector<int32_t> stretch_at;  // by instance: of stretches; empty: there are none
  };

  // Counters have one writer; others may look.
  static void Count(std::atomic<int64_t>* counter) {
    counter->store(counter->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  void Main();
  void PrepareHere();
  absl::Status Prepare();
  void Loop();
  bool HasMail() const { return !mailbox_.Empty() || (inbox_ != nullptr && inbox_->HasRung()); }
  bool OpenMailbox();  // false: stop
  void Open(const MailboxItem& item);
  void Deliver(int program, const Message& message);
  void Hold(int program, const Message& message);
  void DeliverRemote(int program, const Message& message);
  void TellTokens(int program, int32_t reader);
  void EndRemote(int program, int32_t reader);
  void Consider(int program, int32_t actor);
  void PullAhead(int program, int32_t actor);
  bool HasReady() const { return !ready_[0].empty() || !ready_[1].empty(); }
  bool DoNext();
  void RunNext();
  void Run(int program, const Actor& actor, int32_t instruction);
  void RunTraced(int program, const Actor& actor);
  void KeepStretches(int program, int32_t stream);
  KeptStretch* StretchAt(Own* own, const Actor& actor);
  static bool CanTakeAll(const Stretch& stretch, const Actor& actor);
  void RunStretch(int program, const Actor& actor, KeptStretch* kept);
  int32_t RunHere(int program, const Actor& actor);
  int32_t FinishHere(int program, int32_t a, int32_t instructions);
  void SetRunning(int program, const Actor& actor);
  void SendAll(int program);
  void SendUnsent();
  void EndStep(int program, int64_t step);
  // The most that there can be of something, over all programs, so that nothing grows in a step.
  struct Most {
    size_t actors = 1, messages = 0, held = 0;
  };
  void TakeProgram(int program, Most* most);
  void TakeActor(int program, int32_t actor, Most* most);
  void OpenStream(int program, int32_t stream);
  void WaitForFences(Stream* stream, const Actor& actor, int32_t instruction);
  bool IsDone(Fence fence);
  bool LookAtFences();
  bool IsOver(const StepEnd& end);
  void Report(int64_t number);
  absl::Status Explain(const absl::Status& status, int program, const Actor& actor,
                       int32_t number) const;
  void Idle();
  BlockedOn FindBlockedOn(int32_t* actor) const;

  const Setup setup_;
  std::vector<Own> own_;
  Queue<MailboxItem> mailbox_;
  Inbox* inbox_ = nullptr;  // what other ranks of the host say to this worker; null: no such way
  ReadyList ready_[kPriorities];
  MessageList out_;
  RankLink::Unsent unsent_;
  KernelContext context_;
  std::unique_ptr<CpuThreadPool> thread_pool_;
  // Streams of this worker that run late, and who knows the fences of devices' streams; null: no
  // device of the plan has any.
  std::vector<Stream*> late_;
  const FenceKeeper* fences_ = nullptr;
  bool woken_ = false;       // a fence may be done, so that what is held may go
  bool asks_again_ = false;  // for a fence that a device has not done yet
  std::vector<Fence> awaited_;
  std::vector<Held> held_;
  std::vector<StepEnd> ends_;
  std::vector<std::byte> scratch_storage_;
  std::byte* scratch_ = nullptr;
  int32_t program_ = 0;  // of the last step begun
  WorkerTrace trace_;
  std::atomic<int64_t> instructions_{0}, messages_sent_{0}, sleeps_{0};
  // Program + 1 and instance, or 0; its step.
  std::atomic<int64_t> running_{0}, running_step_{0};

  std::mutex mutex_;
  std::condition_variable prepared_;
  bool is_prepared_ = false;     // guarded by mutex_
  absl::Status prepare_status_;  // guarded by mutex_
  int64_t reported_ = 0;         // the question that states_ answers; both guarded by mutex_
  std::vector<std::vector<ActorState>> states_;
  std::thread thread_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_RUNTIME_WORKER_H_
