// A runtime's end of what ranks exchange: tokens and bytes of the edges between them; and what they
// agree on (rank_agreement.h), for the session to wait for. Workers and the session call it; the
// net calls it on threads of its own.
//
// An edge has an actor at both ends that stands for the other one (INSTRUCTION_REMOTE). Where the
// register is, it is a reader: its tokens are told to the other rank once the step that reads them
// has begun here, so that a rank that is ahead never reads what the session of this one has still
// to write; it finishes when the other rank says that the bytes have arrived. So acks and reuse
// edges need no messages of their own: they are what this actor gives when it finishes. Where the
// reader is, it writes the register that a pull here reads. What can be read where it lies, in a
// process of the same host, has arrived for the other rank once it was read: when the pull's own
// register is given back.
#ifndef SLUICE_FRAMEWORK_RUNTIME_RANK_LINK_H_
#define SLUICE_FRAMEWORK_RUNTIME_RANK_LINK_H_

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/base/fence.h"
#include "framework/base/stop.h"
#include "framework/comm/comm_net.h"
#include "framework/device/device.h"
#include "framework/plan/plan.pb.h"
#include "framework/runtime/executor.h"
#include "framework/runtime/message_rules.h"
#include "framework/runtime/rank_agreement.h"
#include "framework/runtime/runtime.h"
#include "framework/runtime/step_tracker.h"

namespace sluice {

class RankClock;
class TransferTrace;
class WaitWatch;
class Worker;
struct RunningProgram;

// Set in the fences of pulls, and in no fence of a device.
constexpr Fence kNetFence = Fence{1} << 63;

class RankLink final : public CommNet::Receiver, public FenceKeeper, public StepEnds {
 public:
  struct Setup {
    const plan::Plan* plan = nullptr;
    const std::vector<RunningProgram>* programs = nullptr;
    const std::vector<std::unique_ptr<Worker>>* workers = nullptr;
    StepTracker* tracker = nullptr;
    CommNet* net = nullptr;
    Executor* executor = nullptr;  // null: waiting threads sleep
    WaitWatch* watch = nullptr;    // is told what ranks say of their waits; may be null
    RankClock* clock = nullptr;
    TransferTrace* transfers = nullptr;  // null: nobody wants to know
    std::vector<OfferedMemory> memory;   // of this rank's devices
    Stop stop;                           // of Join
    // After so long rank 0 says whom Join waits for; 0: never.
    std::chrono::milliseconds wait_limit{0};
  };
  // Numbers the edges of the plan. InvalidArgument names two that are one.
  static absl::StatusOr<std::unique_ptr<RankLink>> Make(const Setup& setup);
  ~RankLink() override;

  // Waits until all ranks are there and have decided alike. FailedPrecondition names the first
  // decision that differs, or two ranks of which one does not serve just what the other reads.
  // Cancelled: as was asked for.
  absl::Status Join();
  // Takes no more part. All steps are over, or nobody will end them.
  void Leave();
  // This rank cannot go on, for a reason that the others do not know yet.
  void Fail(const absl::Status& why);

  // What a worker has to say to other ranks and has not sent yet.
  using Unsent = std::vector<AddressedMessage>;

  // A worker, of the actor that stands for an edge's other end.
  void TokenThere(int program, int32_t actor, int64_t sequence, Unsent* unsent);
  // That a pull has ended, of the actor that its register has from another rank.
  void Pulled(int program, int32_t actor, int64_t sequence, Unsent* unsent);
  // Of a pull's actor that lacks its token alone: asks for the bytes now, so that they leave their
  // owner with it. Once for a token; nothing where they are read in place or come along anyway.
  void PullAhead(int program, int32_t actor, int64_t sequence, std::byte* to);
  // That what a pull brought was read, of the pull's actor.
  void Read(int program, int32_t actor, Unsent* unsent);
  void Send(Unsent* unsent) { setup_.net->SendAll(unsent); }
  int64_t told(int program, int32_t actor) const;  // tokens of a reader
  // For a worker's pulls; owned by this.
  Stream* OpenStream();
  // What other ranks of the host say to a worker alone; null: there is no such way.
  Inbox* OpenInbox(int32_t worker);
  // The number of a pull, which its stream wants.
  int32_t PullOf(int program, int32_t actor) const { return pull_of_[program][actor]; }
  int32_t rank() const { return setup_.net->rank(); }
  bool Done(Fence fence) const override;
  absl::Status status() const override { return absl::OkStatus(); }

  // The asker's thread: see Runtime::Ask.
  absl::StatusOr<std::string> Ask(Asker asker, const std::string& mine, const Answer& answer);

  // Questions of this rank to all, asked and answered: those of whoever saves too, as a session
  // that saves again waits for the save before.
  std::pair<int64_t, int64_t> questions();

  // The rank that ended the steps here as it says nothing more, or nothing that is looked at; -1:
  // they have not ended, or for another reason.
  int32_t missed() const { return missed_; }

  // The round that this rank is about to ask the others about their waits in.
  void AskedWaits(int64_t round) { rules_.AskedWaits(round); }

  void Begin(int program, int64_t number);
  void EndedHere(int program, int64_t step) override;

  void Receive(int32_t from, const WireMessage& message) override;
  absl::StatusOr<absl::Span<const std::byte>> Locate(int32_t from,
                                                     const PullRequest& request) override;
  void PullBegan(int32_t pull, int64_t sequence) override;
  void PullEnded(int32_t pull, int64_t sequence, const absl::Status& status) override;

 private:
  class Net;
  struct Reader {  // a register here, read by another rank
    Edge edge;
    int32_t rank = 0, actor = 0, worker = 0;
    // Tokens told, and tokens whose bytes have arrived: those between may be read.
    std::atomic<int64_t> told{0}, done{0};
  };
  struct Pull {  // a pull here, of a register of another rank
    PullRequest request;
    int32_t rank = 0, worker = 0, reader_worker = 0;  // of the pull and of who reads what it brings
    int32_t consumer_actor = 0, consumer = 0;         // of the token: the pull's actor
    // Tokens: asked for, where that is before they are told; begun by the pull's actor; here.
    std::atomic<int64_t> ahead{0}, begun{0}, ended{0};
    std::atomic<int32_t> owner_inbox{-1};  // that wants to hear of the end
    bool may_lend = false;                 // MayLend
    bool is_asked_ahead = false;           // the same holds, and the bytes come over the net
    // Its worker's: of the last token that was pulled, whether it is read in place, whether it has
    // been read, and whether its owner would have been told by now if it had.
    int64_t last = -1;
    bool in_place = false, read = false, waits = false;
  };

  explicit RankLink(const Setup& setup);
  absl::Status AddEdges(int program);
  std::string EdgesText() const;
  absl::Status AddReader(int program, int32_t actor);
  absl::Status AddPull(int program, int32_t actor);
  void Apply(const RankAgreement::Effects& effects);
  template <typename Call>
  void Tell(const Call& call);
  static void AddPulled(const Pull& pull, int64_t sequence, Unsent* unsent);
  std::byte* BeginPull(int32_t number, int64_t sequence, std::byte* to);
  void TracePull(int32_t number, int64_t sequence);
  void OnToken(int32_t number, const WireMessage& message);
  void OnPulled(Reader* reader, const WireMessage& message);
  absl::StatusOr<absl::Span<const std::byte>> FindSlot(int32_t from,
                                                       const PullRequest& request) const;
  void Refuse(int32_t from, const absl::Status& why);
  void Abort(const absl::Status& status, int32_t missed = -1);

  const Setup setup_;
  std::vector<std::unique_ptr<Reader>> readers_;
  std::vector<std::unique_ptr<Pull>> pulls_;
  std::mutex rules_mutex_;
  MessageRules rules_;  // knows the edges, by the numbers of readers_ and pulls_; checks under it
  // By rank: it broke a rule, so that nothing that it says is looked at any more.
  std::unique_ptr<std::atomic<bool>[]> refused_;
  std::vector<std::vector<int32_t>> reader_of_, pull_of_;  // by program and actor; -1: none
  std::vector<std::unique_ptr<Net>> streams_;
  std::atomic<int32_t> missed_{-1};

  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  RankAgreement agreement_;  // guarded by mutex_
};

// InvalidArgument: a plan of several ranks and no net, or one of another rank or of fewer.
absl::Status CheckNet(const plan::Plan& plan, const CommNet* net);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_RUNTIME_RANK_LINK_H_
