#include "framework/runtime/runtime.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/actor/stream_priority.h"
#include "framework/actor/worker_layout.h"
#include "framework/actor/worker_policy.h"
#include "framework/base/cores.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/comm/frames.h"
#include "framework/comm/pieces.h"
#include "framework/device/device.h"
#include "framework/plan/bytes.h"
#include "framework/plan/kinds.h"
#include "framework/plan/proof.h"
#include "framework/plan/validate.h"
#include "framework/runtime/cards.h"
#include "framework/runtime/collective_groups.h"
#include "framework/runtime/loaded_program.h"
#include "framework/runtime/planned_pull.h"
#include "framework/runtime/rank_clock.h"
#include "framework/runtime/step_tracker.h"
#include "framework/runtime/trace.h"
#include "framework/runtime/transfer_trace.h"
#include "framework/runtime/variable_snapshot.h"
#include "framework/runtime/wait_table.h"
#include "framework/runtime/wait_watch.h"
#include "framework/runtime/waits.h"
#include "framework/runtime/worker.h"

namespace sluice {
namespace {

class LocalRuntime final : public Runtime {
 public:
  LocalRuntime(plan::Plan plan, const RuntimeOptions& options)
      : plan_(std::move(plan)),
        options_(options),
        snapshot_(plan_),
        tracker_(plan_.programs_size(), options.executor),
        clock_(NowNanoseconds()) {
    untaken_.reserve(2 * kStepsAhead);
  }
  ~LocalRuntime() override;
  absl::Status Start();
  absl::Status Close() override;

  const plan::Plan& plan() const override { return plan_; }
  absl::Status Enqueue(int program, absl::Span<const Feed> feeds, int64_t step) override;
  absl::StatusOr<StepResult> Next() override;
  void Quiesce() override;
  void Fail(const absl::Status& why) override;
  absl::Status status() const override;
  std::byte* VariableShard(int variable, int shard) override;
  void CopyIn(int variable, int shard, absl::Span<const std::byte> from) override;
  void CopyOut(int variable, int shard, absl::Span<std::byte> to) const override;
  VariableSnapshot* snapshot() override { return &snapshot_; }
  absl::StatusOr<std::string> Ask(Asker asker, const std::string& mine,
                                  const Answer& answer) override {
    return link_ == nullptr ? answer({mine}) : link_->Ask(asker, mine, answer);
  }
  NullCounts null_counts() const override;
  int workers() const override { return static_cast<int>(workers_.size()); }
  WorkerStatistics statistics(int worker) const override { return workers_[worker]->statistics(); }

 private:
  // A step whose results nobody has taken. Where a later step needs its ports, they are kept here.
  struct Untaken {
    int program;
    int64_t step;
    bool kept;
    std::vector<HostTensor> fetches;
  };

  absl::Status OpenAll();
  void PinHostMemory();
  absl::Status MakeCommunicators();
  absl::Status ConnectCommunicators();
  // Ranks that share the cores of this host.
  int Processes() const { return options_.net == nullptr ? 1 : options_.net->ranks_of_host(); }
  bool IsOwn(int device) const { return plan_.devices(device).rank() == plan_.rank(); }
  bool PullsBesideReader(const ProgramIndex& index, int p, int pull) const;
  int32_t WorkerOfActor(const ProgramIndex& index, int p, int actor) const;
  absl::Status LoadPrograms(std::vector<ProgramIndex> indexes);
  absl::Status StartWorkers();
  void KeepResults(int program, int64_t step);
  absl::Status EndTrace();
  absl::Status WriteTraceOfRanks(const TracePart& part);

  const plan::Plan plan_;
  const RuntimeOptions options_;
  std::vector<std::unique_ptr<Device>> devices_;  // null: another rank's
  std::unique_ptr<Communicators> communicators_;  // null: there are no collectives here
  std::vector<int32_t> place_;                    // of a device among this rank's
  WorkerLayout layout_;
  VariableSnapshot snapshot_;
  std::vector<RunningProgram> programs_;
  StepTracker tracker_;
  std::unique_ptr<RankLink> link_;  // null: there is one rank
  std::vector<std::unique_ptr<Worker>> workers_;
  mutable WaitTable table_{&plan_, &programs_, &workers_};
  std::unique_ptr<WaitWatch> watch_;  // null: nobody watches
  RankClock clock_;
  TransferTrace transfers_;
  int current_ = -1;              // the program of the last step begun
  std::vector<Untaken> untaken_;  // oldest first; two of them, as a rule
  Untaken taken_;                 // the last, whose fetches the session may be reading
  bool closed_ = false;
  mutable std::mutex waited_mutex_;
  // Once the steps have ended as a rank was lost: what waited for it here; guarded by
  // waited_mutex_.
  mutable std::optional<std::string> waited_;
};

// Null devices have no bytes to prove.
bool HasMemory(const plan::Plan& plan) {
  for (const plan::Device& device : plan.devices()) {
    if (KindOf(device) != DeviceKind::kNull) return true;
  }
  return false;
}

// No plan starts unproven, wherever it came from. The indexes of its programs.
absl::StatusOr<std::vector<ProgramIndex>> Prove(const plan::Plan& plan, const Stop& stop) {
  if (plan.representatives_only()) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan: expected the programs of all ", plan.devices_size(),
                     " devices, got those of one device of each class alone: compiled with "
                     "representatives_only, it tells time and bytes and cannot run"));
  }
  std::vector<ProgramIndex> indexes;
  RETURN_IF_ERROR(ValidatePlan(plan, stop, &indexes));
  std::vector<int64_t> variables;
  for (const plan::Device& device : plan.devices()) variables.push_back(device.variable_bytes());
  for (const ProgramIndex& index : indexes) {
    Certificate certificate;
    RETURN_IF_ERROR(ProveLive(index, &certificate, nullptr, stop));
    if (HasMemory(plan)) RETURN_IF_ERROR(ProveBytes(index, certificate, variables, stop));
  }
  return indexes;
}

absl::Status LocalRuntime::OpenAll() {
  const CommNet* const net = options_.net;
  const bool shared = net != nullptr && net->shares_memory() && net->ranks_of_host() > 1;
  const std::vector<int32_t> cards = CardsOf(plan_, net);
  size_t next_card = 0;
  std::vector<DeviceSpec> specs, cuda_specs;
  for (int d = 0; d < plan_.devices_size(); ++d) {
    place_.push_back(-1);
    if (!IsOwn(d)) continue;
    const plan::Device& device = plan_.devices(d);
    DeviceSpec spec = {KindOf(device), device.memory_bytes(), DeviceName(device), shared};
    if (spec.kind == DeviceKind::kCuda) spec.card = cards[next_card++];
    place_.back() = static_cast<int32_t>(specs.size() + cuda_specs.size());
    (spec.kind == DeviceKind::kCuda && options_.cuda != nullptr ? cuda_specs : specs)
        .push_back(spec);
  }
  ASSIGN_OR_RETURN(auto opened, OpenDevices(specs, options_.async));
  std::vector<std::unique_ptr<Device>> opened_cuda;
  if (!cuda_specs.empty()) {
    ASSIGN_OR_RETURN(opened_cuda, options_.cuda->open(cuda_specs));
  }
  size_t next = 0, next_cuda = 0;
  for (int d = 0; d < plan_.devices_size(); ++d) {
    devices_.emplace_back();
    if (!IsOwn(d)) continue;
    const bool cuda = options_.cuda != nullptr && KindOf(plan_.devices(d)) == DeviceKind::kCuda;
    devices_.back() = std::move(cuda ? opened_cuda[next_cuda++] : opened[next++]);
  }
  PinHostMemory();
  return absl::OkStatus();
}

// Of all devices of a kind one is told; what it pins is pinned for all.
void LocalRuntime::PinHostMemory() {
  const auto cuda = std::find_if(devices_.begin(), devices_.end(), [](const auto& device) {
    return device != nullptr && device->kind() == DeviceKind::kCuda;
  });
  if (cuda == devices_.end()) return;
  for (int d = 0; d < plan_.devices_size(); ++d) {
    if (devices_[d] == nullptr || !IsHost(devices_[d]->kind())) continue;
    (*cuda)->PinHostMemory(
        {devices_[d]->memory(), static_cast<size_t>(plan_.devices(d).memory_bytes())});
  }
}

absl::Status LocalRuntime::MakeCommunicators() {
  ASSIGN_OR_RETURN(std::vector<CommunicatorGroup> groups, GroupsOfCollectives(plan_, options_.net));
  if (groups.empty()) return absl::OkStatus();
  if (options_.collectives == nullptr) {
    return absl::UnimplementedError(
        "plan: expected no collectives where nothing does them, got some; --reproducible makes "
        "copies of them");
  }
  ASSIGN_OR_RETURN(communicators_, options_.collectives->make(std::move(groups),
                                                              [this](const absl::Status& status) {
                                                                tracker_.Fail(status);
                                                              }));
  tracker_.set_failure([this] { communicators_->Abort(); });
  layout_.collectives = true;
  // A device's stream holds a bounded number of launches, and a worker that gives it more waits.
  // Had the worker another device of the group, that one's member, for which the stream waits,
  // would never be launched: ResNet on two cards and one worker stood still in its second step.
  layout_.computing = layout_.devices;
  return absl::OkStatus();
}

// Ranks say what they have of communicators, and then all of a group begin it. A rank without
// collectives answers, too, for it does not know whether others have some.
absl::Status LocalRuntime::ConnectCommunicators() {
  const bool cards = std::ranges::any_of(plan_.devices(), [](const plan::Device& device) {
    return KindOf(device) == DeviceKind::kCuda;
  });
  if (communicators_ == nullptr && (link_ == nullptr || !cards)) return absl::OkStatus();
  std::string mine;
  if (communicators_ != nullptr) {
    ASSIGN_OR_RETURN(mine, communicators_->Introduce());
  }
  const auto all = [](absl::Span<const std::string> ranks) { return absl::StrJoin(ranks, ""); };
  ASSIGN_OR_RETURN(const std::string introductions, Ask(Asker::kSession, mine, all));
  return communicators_ == nullptr ? absl::OkStatus() : communicators_->Connect(introductions);
}

// Whether it costs the worker of its reader nothing to pull: the bytes are read where they lie, or
// the net's own threads bring what was asked for ahead, or they are few. A pull that could be asked
// for only once that worker looks up from an instruction would come later for it; what lies in
// pieces in memory of the host is gathered by whoever pulls.
bool LocalRuntime::PullsBesideReader(const ProgramIndex& index, int p, int pull) const {
  if (options_.net == nullptr || !MayLend(index, pull)) return false;
  const PullRequest request = PlannedRequest(index, p, pull);
  const int32_t rank = plan_.devices(request.edge.source_device).rank();
  int64_t offset = 0;
  return options_.net->pulls_ahead(rank) ||
         (options_.net->reads_in_place(rank) && LieInRow(request, &offset));
}

// A remote actor belongs to the worker of what it exchanges messages with. So does such a pull: its
// reader cannot begin before that worker is free, and the worker for I/O would be one more to wake.
// A step of GPT tiny on two processes of a core each has 190 switches between threads by it, where
// it had 1050; over TCP 430, where it had 1230.
int32_t LocalRuntime::WorkerOfActor(const ProgramIndex& index, int p, int actor) const {
  const plan::Program& program = index.program();
  int32_t device = index.device_of(actor);
  plan::StreamKind kind = index.stream_kind(index.actor(actor).stream);
  const plan::Instruction& x = program.actors(actor).script(0);
  if (x.kind() == plan::INSTRUCTION_REMOTE) {
    if (x.inputs_size() > 0) {
      device = program.registers(x.inputs(0).register_()).device();
      const int32_t producer = index.reg(x.inputs(0).register_()).producer;
      kind = producer < 0 ? plan::STREAM_COMPUTE : index.stream_kind(index.actor(producer).stream);
    } else {
      const ProgramIndex::Register& reg = index.reg(x.outputs(0).register_());
      if (reg.consumers_begin == reg.consumers_end) return 0;
      return WorkerOfActor(index, p, index.consumer(reg.consumers_begin).actor);
    }
  } else if (x.kind() == plan::INSTRUCTION_PULL && PullsBesideReader(index, p, actor)) {
    kind = index.stream_kind(index.actor(ReaderOfPull(index, actor)).stream);
  }
  return device < 0 || place_[device] < 0 ? 0 : layout_.WorkerOf(kind, place_[device]);
}

absl::Status LocalRuntime::LoadPrograms(std::vector<ProgramIndex> indexes) {
  std::vector<std::byte*> starts;
  for (const auto& device : devices_) {
    starts.push_back(device == nullptr ? nullptr : device->memory());
  }
  for (int p = 0; p < plan_.programs_size(); ++p) {
    RETURN_IF_ERROR(CheckStop(options_.stop));
    RunningProgram running;
    ASSIGN_OR_RETURN(running.loaded, LoadedProgram::Load(plan_, p, std::move(indexes[p]), starts));
    running.loaded->set_snapshot(&snapshot_);
    const ProgramIndex& index = running.loaded->index();
    running.state = std::make_unique<ProgramState>(&index);
    for (int a = 0; a < index.num_actors(); ++a) {
      const plan::Stream& stream = plan_.programs(p).streams(index.actor(a).stream);
      if (stream.device() < 0 || stream.device() >= plan_.devices_size()) {
        return absl::InvalidArgumentError(absl::StrCat("program ", plan_.programs(p).name(),
                                                       ": a stream on device ", stream.device(),
                                                       ", expected one of ", plan_.devices_size()));
      }
      running.worker_of.push_back(WorkerOfActor(index, p, a));
      running.priority.push_back(PriorityOf(stream.kind()));
    }
    programs_.push_back(std::move(running));
  }
  return absl::OkStatus();
}

absl::Status LocalRuntime::StartWorkers() {
  const bool computes =
      std::any_of(plan_.devices().begin(), plan_.devices().end(),
                  [](const plan::Device& device) { return KindOf(device) == DeviceKind::kCpu; });
  const int cores = CoresOfOneProcess(Processes());
  const int threads = !computes                         ? 1
                      : options_.threads_per_device > 0 ? options_.threads_per_device
                                                        : std::max(1, cores / layout_.devices);
  // Who waits awake keeps a core from those it waits for, where more compute than there are cores.
  const bool have_cores = layout_.computing <= cores;
  for (int w = 0; w < layout_.workers(); ++w) {
    Worker::Setup setup;
    setup.index = w;
    setup.computes = layout_.computes(w);
    setup.spins = setup.computes && have_cores;
    setup.kernels = {options_.check,       options_.prepare,    layout_.computes(w) ? threads : 1,
                     options_.check_nan,   options_.cuda,       options_.stop,
                     options_.collectives, communicators_.get()};
    setup.seed = options_.seed;
    setup.devices = &devices_;
    setup.trace = !options_.trace.empty();
    setup.captures = options_.cuda_graphs;
    setup.programs = &programs_;
    setup.tracker = &tracker_;
    setup.link = link_.get();
    setup.peers = &workers_;
    setup.init_thread = options_.init_thread;
    setup.tamper = options_.tamper;
    setup.executor = options_.executor;
    workers_.push_back(std::make_unique<Worker>(std::move(setup)));
  }
  for (const auto& worker : workers_) worker->Start();
  absl::Status first;
  for (const auto& worker : workers_) {
    const absl::Status status = worker->WaitPrepared();
    if (first.ok()) first = status;
  }
  return first;
}

absl::Status LocalRuntime::Start() {
  if (options_.workers < 0 || options_.threads_per_device < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected workers and threads of 0 or more, got ", options_.workers, " and ",
                     options_.threads_per_device));
  }
  RETURN_IF_ERROR(CheckNet(plan_, options_.net));
  int own_devices = 0;
  for (int d = 0; d < plan_.devices_size(); ++d) own_devices += IsOwn(d) ? 1 : 0;
  layout_.devices = std::max(1, own_devices);
  layout_.computing =
      WorkersFor(layout_.devices, options_.workers > 0 ? options_.workers : UsableCores());
  ASSIGN_OR_RETURN(std::vector<ProgramIndex> indexes, Prove(plan_, options_.stop));
  RETURN_IF_ERROR(OpenAll());
  RETURN_IF_ERROR(MakeCommunicators());
  RETURN_IF_ERROR(LoadPrograms(std::move(indexes)));
  if (options_.wait_limit.count() > 0) {
    watch_ = std::make_unique<WaitWatch>(WaitWatch::Setup{
        &plan_, &programs_, &workers_, &tracker_, &table_, options_.net, options_.wait_limit});
  }
  if (options_.net != nullptr) {
    RankLink::Setup setup;
    setup.plan = &plan_;
    setup.programs = &programs_;
    setup.workers = &workers_;
    setup.tracker = &tracker_;
    setup.net = options_.net;
    setup.executor = options_.executor;
    for (int d = 0; d < plan_.devices_size(); ++d) {
      const auto bytes = static_cast<size_t>(plan_.devices(d).memory_bytes());
      if (!IsOwn(d) || !IsHost(devices_[d]->kind()) || bytes == 0) continue;
      setup.memory.push_back({{devices_[d]->memory(), bytes}, devices_[d]->mark()});
    }
    setup.watch = watch_.get();
    setup.clock = &clock_;
    setup.transfers = options_.trace.empty() ? nullptr : &transfers_;
    setup.stop = options_.stop;
    setup.wait_limit = options_.wait_limit;
    ASSIGN_OR_RETURN(link_, RankLink::Make(setup));
    tracker_.set_ends(link_.get());
  }
  RETURN_IF_ERROR(CheckStop(options_.stop));
  RETURN_IF_ERROR(StartWorkers());
  if (link_ != nullptr) RETURN_IF_ERROR(link_->Join());
  RETURN_IF_ERROR(ConnectCommunicators());
  if (link_ != nullptr && !options_.trace.empty() && plan_.rank() > 0) {
    clock_.Measure(options_.net);
  }
  return watch_ == nullptr ? absl::OkStatus() : watch_->Start(link_.get());
}

LocalRuntime::~LocalRuntime() {
  const absl::Status status = Close();
  if (!status.ok()) SLUICE_LOG(ERROR) << status.message();
  // Collectives that nobody will join end before the devices that wait for them.
  communicators_.reset();
  // What pins the memory of hosts lets go of it before that is unmapped.
  for (auto& device : devices_) {
    if (device != nullptr && !IsHost(device->kind())) device.reset();
  }
}

absl::Status LocalRuntime::Close() {
  if (closed_) return absl::OkStatus();
  closed_ = true;
  if (!workers_.empty()) Quiesce();
  if (watch_ != nullptr) watch_->Stop();
  const bool traces = !options_.trace.empty() && !workers_.empty();
  absl::Status status;
  if (traces) status = EndTrace();
  if (link_ != nullptr) link_->Leave();
  // All threads end before any worker is freed: a worker's last message may still name another.
  for (const auto& worker : workers_) worker->Stop();
  link_.reset();
  return status;
}

// While the ranks are still there: the first one writes what all of them did.
absl::Status LocalRuntime::EndTrace() {
  const bool together = link_ != nullptr && tracker_.status().ok();
  if (together && plan_.rank() > 0) clock_.Measure(options_.net);
  for (const auto& worker : workers_) worker->Stop();
  std::vector<const WorkerTrace*> workers;
  for (const auto& worker : workers_) workers.push_back(&worker->trace());
  TraceSource source;
  source.rank = plan_.rank();
  if (link_ != nullptr) {
    source.name = absl::StrCat("rank ", plan_.rank(), " at ", HostName(), ", process ", getpid());
  }
  source.clock = &clock_;
  source.workers = workers;
  const std::vector<TransferSpan> transfers = transfers_.spans();
  source.transfers = transfers;
  const TracePart part = MakeTracePart(plan_, source);
  absl::Status status = together ? WriteTraceOfRanks(part) : WriteTrace(options_.trace, {part});
  const std::vector<TraceTotals> totals = SumTraces(plan_.programs_size(), workers);
  for (int p = 0; p < plan_.programs_size(); ++p) {
    if (totals[p].instructions == 0) continue;
    SLUICE_LOG(INFO) << (together ? "trace" : options_.trace) << ", program "
                     << plan_.programs(p).name() << ": " << TotalsText(totals[p]);
  }
  if (options_.traced) status.Update(options_.traced(plan_, workers));
  return status;
}

absl::Status LocalRuntime::WriteTraceOfRanks(const TracePart& part) {
  constexpr size_t kMost = kMostFrameBytes / 2;  // of one message, with room for what is around it
  std::string bytes = PartToBytes(part);
  const bool fits = plan_.rank() == 0 || bytes.size() <= kMost;
  if (const auto error = clock_.error(); error.has_value()) {
    SLUICE_LOG(INFO) << "trace: this rank's times are within " << static_cast<double>(*error) / 1e3
                     << " us of rank 0's";
  }
  const auto write = [this](absl::Span<const std::string> ranks) -> absl::StatusOr<std::string> {
    std::vector<TracePart> parts;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      if (ranks[rank].empty()) continue;
      absl::StatusOr<TracePart> told = PartFromBytes(ranks[rank]);
      if (!told.ok()) return AddContext(told.status(), absl::StrCat("rank ", rank));
      parts.push_back(*std::move(told));
    }
    RETURN_IF_ERROR(WriteTrace(options_.trace, parts));
    return "";
  };
  const absl::Status written = link_->Ask(Asker::kSession, fits ? bytes : "", write).status();
  if (written.ok() && fits) return absl::OkStatus();
  SLUICE_LOG(WARNING) << "trace: " << options_.trace << " has this rank alone: "
                      << (written.ok() ? absl::StrCat("it is of ", bytes.size(),
                                                      " bytes, expected at most ", kMost)
                                       : std::string(written.message()));
  return WriteTrace(options_.trace, {part});
}

absl::Status LocalRuntime::Enqueue(int program, absl::Span<const Feed> feeds, int64_t step) {
  if (current_ != program) Quiesce();
  current_ = program;
  RunningProgram& running = programs_[program];
  const int64_t begun = tracker_.begun(program);
  tracker_.WaitEnded(program, begun - kStepsAhead + 1);
  RETURN_IF_ERROR(status());
  KeepResults(program, begun - kStepsAhead);
  StepPorts& ports = running.loaded->ports(begun);
  SLUICE_CHECK_EQ(feeds.size(), ports.feeds.size());
  for (size_t i = 0; i < feeds.size(); ++i) ports.SetFeed(i, feeds[i]);
  ports.number = step;
  untaken_.push_back({program, begun, false, {}});
  tracker_.Begin(program, static_cast<int32_t>(workers_.size()));
  if (link_ != nullptr) link_->Begin(program, step);
  for (const auto& worker : workers_) worker->BeginStep(program);
  return absl::OkStatus();
}

// Copies the results of an ended step that nobody has taken, before its ports are used again.
void LocalRuntime::KeepResults(int program, int64_t step) {
  for (Untaken& untaken : untaken_) {
    if (untaken.program != program || untaken.step != step) continue;
    untaken.fetches = programs_[program].loaded->ports(step).fetches;
    untaken.kept = true;
  }
}

absl::StatusOr<StepResult> LocalRuntime::Next() {
  if (untaken_.empty()) {
    RETURN_IF_ERROR(status());
    return absl::FailedPreconditionError("no step has been begun whose results are not taken");
  }
  taken_ = std::move(untaken_.front());
  untaken_.erase(untaken_.begin());
  tracker_.WaitEnded(taken_.program, taken_.step + 1);
  RETURN_IF_ERROR(status());
  const std::vector<HostTensor>& ports =
      programs_[taken_.program].loaded->ports(taken_.step).fetches;
  return StepResult{taken_.program, taken_.kept ? &taken_.fetches : &ports};
}

// Of several ranks, with what waits here for the one that ended the steps. Actors that need nothing
// of that rank go on to where they do, which takes a moment. In a simulation nobody would give the
// workers their turns to answer.
absl::Status LocalRuntime::status() const {
  constexpr int kTries = 20, kSettles = 3;  // at least so many
  constexpr std::chrono::milliseconds kBetween(5);
  const absl::Status status = tracker_.status();
  if (status.ok() || options_.executor != nullptr) return status;
  const std::lock_guard<std::mutex> lock(waited_mutex_);
  if (!waited_.has_value()) {
    waited_ = "";
    const int32_t missed = link_ == nullptr ? -1 : link_->missed();
    const StepTracker::Counts steps = tracker_.counts();
    const bool waits = missed >= 0 && steps.begun > steps.through;
    for (int n = 0; waits && n < kTries && (n < kSettles || waited_->empty()); ++n) {
      if (n > 0) std::this_thread::sleep_for(kBetween);
      waited_ = WaitForRankText(table_.Streams(/*quiet=*/0), missed);
    }
  }
  if (waited_->empty()) return status;
  return absl::Status(status.code(), absl::StrCat(status.message(), "; here ", *waited_));
}

void LocalRuntime::Quiesce() {
  for (int p = 0; p < static_cast<int>(programs_.size()); ++p) {
    tracker_.WaitEnded(p, tracker_.begun(p));
  }
}

void LocalRuntime::Fail(const absl::Status& why) {
  if (why.ok() || !tracker_.status().ok()) return;
  link_ == nullptr ? tracker_.Fail(why) : link_->Fail(why);
}

std::byte* LocalRuntime::VariableShard(int variable, int shard) {
  const plan::VariableShard& planned = plan_.variables(variable).shards(shard);
  const Device& device = *devices_[planned.device()];
  if (!IsHost(device.kind()) || device.memory() == nullptr) return nullptr;
  return device.memory() + planned.offset();
}

void LocalRuntime::CopyIn(int variable, int shard, absl::Span<const std::byte> from) {
  const plan::VariableShard& planned = plan_.variables(variable).shards(shard);
  devices_[planned.device()]->CopyIn(planned.offset(), from);
}

void LocalRuntime::CopyOut(int variable, int shard, absl::Span<std::byte> to) const {
  const plan::VariableShard& planned = plan_.variables(variable).shards(shard);
  devices_[planned.device()]->CopyOut(planned.offset(), to);
}

NullCounts LocalRuntime::null_counts() const {
  NullCounts sum;
  for (const auto& device : devices_) {
    if (device == nullptr) continue;
    const NullCounts counts = device->null_counts();
    sum.instructions += counts.instructions;
    sum.flops += counts.flops;
    sum.wire_bytes += counts.wire_bytes;
  }
  return sum;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Runtime>> Runtime::Start(plan::Plan plan,
                                                        const RuntimeOptions& options) {
  auto runtime = std::make_unique<LocalRuntime>(std::move(plan), options);
  RETURN_IF_ERROR(runtime->Start());
  return absl::StatusOr<std::unique_ptr<Runtime>>(std::move(runtime));
}

}  // namespace sluice
