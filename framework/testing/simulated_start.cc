#include "framework/testing/simulated_start.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/checkpoint/file.h"
#include "framework/kernels/kernel.h"
#include "framework/session/plan_session.h"
#include "framework/testing/forwarding_session.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// What an event of a start is, in the digest.
enum StartEvent : uint64_t { kMeets = 64, kTells, kLimit };

constexpr auto kMeetLimit = seconds(15);
constexpr int64_t kSaveEvery = 2;

// Of what is prepared now: a kernel's maker is a function and no more.
thread_local KernelFault* planted_kernel_fault = nullptr;

class FailingKernel final : public Kernel {
 public:
  FailingKernel(std::unique_ptr<Kernel> kernel, KernelFault* fault)
      : kernel_(std::move(kernel)), fault_(*fault) {}
  absl::Status Launch(const KernelContext& context, std::byte* const* operands,
                      std::byte* scratch) override {
    if (context.step != fault_.step) return kernel_->Launch(context, operands, scratch);
    fault_.failed_step = std::exchange(fault_.step, -1);
    return absl::OutOfRangeError(fault_.reason);
  }
  int64_t scratch() const override { return kernel_->scratch(); }

 private:
  const std::unique_ptr<Kernel> kernel_;
  KernelFault& fault_;
};

absl::StatusOr<std::unique_ptr<Kernel>> PrepareKernelThatMayFail(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, PrepareCpuKernel(spec));
  return absl::StatusOr<std::unique_ptr<Kernel>>(
      std::make_unique<FailingKernel>(std::move(kernel), planted_kernel_fault));
}

// Counts the steps that a rank takes. Planted: rank 0 judges what nobody else has said.
class WatchedSession final : public ForwardingSession {
 public:
  // `taken` is told how many there are since this start.
  WatchedSession(Session* session, int64_t* steps, std::function<void(int64_t)> taken,
                 int32_t hasty_ranks)
      : ForwardingSession(session),
        steps_(*steps),
        taken_(std::move(taken)),
        hasty_ranks_(hasty_ranks) {}
  void set_step(int64_t step) override {
    steps_ = step;
    ForwardingSession::set_step(step);
  }
  absl::Status Next(Fetches* fetches) override {
    RETURN_IF_ERROR(ForwardingSession::Next(fetches));
    ++steps_;
    taken_(++here_);
    return absl::OkStatus();
  }
  absl::Status AgreeOnSave(
      const std::string& mine,
      const std::function<absl::Status(absl::Span<const std::string>)>& judge) override {
    if (hasty_ranks_ == 0) return ForwardingSession::AgreeOnSave(mine, judge);
    std::vector<std::string> said(hasty_ranks_);
    said[0] = mine;
    const absl::Status verdict = judge(said);
    return ForwardingSession::AgreeOnSave(mine,
                                          [&](absl::Span<const std::string>) { return verdict; });
  }

 private:
  int64_t& steps_;
  int64_t here_ = 0;
  const std::function<void(int64_t)> taken_;
  const int32_t hasty_ranks_;  // 0: it waits for others
};

}  // namespace

SimulatedStart::SimulatedStart(SimulatedHost* host, int32_t number,
                               const SimulatedNetOptions& options)
    : host_(*host), simulation_(*host->simulation), number_(number), ranks_(host->task->ranks()) {
  std::vector<SimulatedProcess*> processes;
  for (int32_t n = 0; n < ranks(); ++n) {
    Rank& rank = ranks_[n];
    rank.process = std::make_unique<SimulatedProcess>(&simulation_, number * ranks() + n,
                                                      [this, n] { Main(n); });
    rank.disk = std::make_unique<SimulatedDisk>(
        &simulation_, rank.process.get(), &host->disk,
        [this](const FileOperation& operation) { Done(operation); });
    if (host->fault == RecoveryFault::kSyncForgotten) rank.disk->ForgetSyncs();
    processes.push_back(rank.process.get());
  }
  net_ = std::make_unique<SimulatedNet>(&simulation_, std::move(processes), options);
  for (int32_t n = 0; n < ranks(); ++n) {
    ranks_[n].process->set_killed([this, n] {
      net_->LoseAll(n);
      net_->Ended(n, ranks_[n].silent);
    });
  }
}

void SimulatedStart::Begin() {
  for (Rank& rank : ranks_) rank.process->Start();
}

void SimulatedStart::Kill(int32_t n, bool silently) {
  ranks_[n].silent = silently;
  ranks_[n].process->Kill();
}

bool SimulatedStart::over() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const Rank& rank) { return rank.process->over(); });
}

bool SimulatedStart::failed() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) {
    return rank.process->killed() || (rank.status.has_value() && !rank.status->ok());
  });
}

bool SimulatedStart::finished() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.finished; });
}

Simulation::Clock::time_point SimulatedStart::StandsUntil() const {
  Simulation::Clock::time_point last{};
  for (const Rank& rank : ranks_) {
    if (rank.process->lives()) last = std::max(last, rank.process->stands_until());
  }
  return last;
}

int64_t SimulatedStart::FailedStep() const {
  int64_t first = -1;
  for (const Rank& rank : ranks_) {
    const int64_t step = rank.kernel_fault.failed_step;
    if (step >= 0 && (first < 0 || step < first)) first = step;
  }
  return first;
}

std::string SimulatedStart::WaitsFor() const {
  std::string text;
  for (int32_t n = 0; n < ranks(); ++n) {
    const Rank& rank = ranks_[n];
    absl::StrAppend(&text, "start ", number_, ", rank ", n, ", process ", number_ * ranks() + n,
                    rank.process->killed()    ? ": killed"
                    : rank.status.has_value() ? ": " + rank.status->ToString()
                                              : "",
                    "\n");
    if (rank.process->lives()) absl::StrAppend(&text, rank.process->WaitsFor());
  }
  return text;
}

void SimulatedStart::Fail(const absl::Status& violation) {
  simulation_.Fail(AddContext(violation, absl::StrCat("start ", number_)));
}

// The folder's checkpoints as they change: a rename commits one, a sync of the folder makes it
// last.
void SimulatedStart::Done(const FileOperation& operation) {
  const std::string checkpoints = host_.folder + "/checkpoints";
  const bool renames = operation.call == FileCall::kRename || operation.call == FileCall::kExchange;
  if (renames && absl::StartsWith(operation.to, checkpoints + "/step-") &&
      !absl::EndsWith(operation.to, ".tmp")) {
    for (const int32_t other : host_.at_work) {
      if (other == number_) continue;
      Fail(absl::InternalError(absl::StrCat("commits ", operation.to, " while start ", other,
                                            " is at work in the folder")));
    }
    const std::string name = operation.to.substr(checkpoints.size() + 6);
    if (!absl::SimpleAtoi(name, &host_.committed)) Fail(absl::InternalError(operation.to));
  } else if (operation.call == FileCall::kSync && operation.path == checkpoints) {
    host_.on_disk = host_.committed;
  }
}

void SimulatedStart::Main(int32_t n) {
  const absl::Status status = Run(n);
  Rank& rank = ranks_[n];
  rank.status = status;
  host_.at_work.erase(n == 0 ? number_ : -1);
  if (!rank.process->killed()) net_->Ended(n, /*silently=*/false);
}

absl::Status SimulatedStart::Run(int32_t n) {
  Rank& rank = ranks_[n];
  RETURN_IF_ERROR(Meet(n));
  std::optional<RunLock> lock;
  ASSIGN_OR_RETURN(const std::string checkpoint,
                   Share(n, n == 0 ? TakeFolder(&lock) : absl::StatusOr<std::string>("")));
  RuntimeOptions options = SimulatedRuntimeOptions();
  options.net = net_->endpoint(n);
  options.executor = rank.process.get();
  options.prepare = PrepareKernelThatMayFail;
  planted_kernel_fault = &rank.kernel_fault;
  ASSIGN_OR_RETURN(const auto session, StartPlan(host_.task->plans[n], options));
  const bool hasty = host_.fault == RecoveryFault::kEarlyCommit && n == 0;
  const auto taken = [this, n](int64_t steps) {
    for (int32_t other = 1; other < ranks(); ++other) {
      if (net_->StepsEnded(other) >= steps) continue;
      Fail(absl::InternalError(absl::StrCat("rank ", n, " takes step ", steps - 1,
                                            " before it has ended on rank ", other)));
    }
  };
  WatchedSession watched(session.get(), &rank.steps_taken, taken, hasty ? ranks() : 0);
  const absl::Status trained = Train(n, checkpoint, &watched);
  const absl::Status closed = session->Close();
  return trained.ok() ? closed : trained;
}

// A model of Rendezvous: all wait for all.
absl::Status SimulatedStart::Meet(int32_t n) {
  Rank& rank = ranks_[n];
  const auto limit = simulation_.now() + kMeetLimit;
  for (int32_t other = 0; other < ranks() && !rank.process->killed(); ++other) {
    ranks_[other].process->After(simulation_.Draw(milliseconds(5)), kMeets,
                                 [this, other] { ++ranks_[other].met; });
  }
  rank.process->After(kMeetLimit, kLimit, [] {});
  rank.process->WaitUntil("ranks to meet", [&] {
    return rank.met == ranks() || rank.process->killed() || simulation_.now() >= limit;
  });
  if (rank.met == ranks()) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat("only ", rank.met, " ranks came"));
}

// A model of Job::Share: rank 0 tells, the others hear it.
absl::StatusOr<std::string> SimulatedStart::Share(int32_t n,
                                                  const absl::StatusOr<std::string>& mine) {
  Rank& rank = ranks_[n];
  if (n == 0) {
    for (int32_t other = 1; other < ranks() && !rank.process->killed(); ++other) {
      ranks_[other].process->After(simulation_.Draw(milliseconds(5)), kTells,
                                   [this, other, mine] { ranks_[other].told = mine; });
    }
    return mine;
  }
  const auto limit = simulation_.now() + kMeetLimit;
  rank.process->After(kMeetLimit, kLimit, [] {});
  rank.process->WaitUntil("rank 0 to say what is trained", [&] {
    return rank.told.has_value() || rank.process->killed() || simulation_.now() >= limit;
  });
  if (rank.told.has_value()) return *rank.told;
  return absl::UnavailableError("rank 0 is lost");
}

// The checkpoint to go on from; empty: there is none.
absl::StatusOr<std::string> SimulatedStart::TakeFolder(std::optional<RunLock>* lock) {
  if (host_.fault != RecoveryFault::kNoLock) {
    ASSIGN_OR_RETURN(RunLock taken, RunLock::Take(host_.folder));
    lock->emplace(std::move(taken));
  }
  host_.at_work.insert(number_);
  std::vector<DamagedCheckpoint> damaged;
  absl::StatusOr<std::string> latest =
      LatestGoodCheckpoint(host_.folder + "/checkpoints", &damaged);
  if (!damaged.empty()) Fail(AddContext(damaged[0].status, "a checkpoint that was committed"));
  if (absl::IsNotFound(latest.status())) {
    if (host_.committed == 0) return std::string();
    Fail(absl::DataLossError(
        absl::StrCat("the checkpoint of step ", host_.committed, " is not there any more")));
  }
  RETURN_IF_ERROR(latest.status());
  if (host_.fault == RecoveryFault::kOlderState) {
    ASSIGN_OR_RETURN(std::vector<std::string> names, ListDirectory(host_.folder + "/checkpoints"));
    while (absl::EndsWith(names.front(), ".tmp")) names.erase(names.begin());
    latest = absl::StrCat(host_.folder, "/checkpoints/", names.front());
  }
  ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Load(*latest));
  if (checkpoint.meta().step != host_.committed) {
    Fail(absl::DataLossError(absl::StrCat("goes on from step ", checkpoint.meta().step,
                                          ", expected the last that was committed, ",
                                          host_.committed)));
  }
  return latest;
}

absl::Status SimulatedStart::Train(int32_t n, const std::string& checkpoint, Session* session) {
  Rank& rank = ranks_[n];
  const SimulatedTask& task = *host_.task;
  TrainerOptions options;
  options.schedule = task.schedule;
  options.samples_per_step = task.batch;
  options.save_every = kSaveEvery;
  options.keep = 2;
  options.out = host_.folder;
  options.save_in_background = false;
  options.rank = n;
  options.ranks = ranks();
  options.faults = rank.disk.get();
  TrainerTask what;
  const int64_t back = host_.fault == RecoveryFault::kSamplesAgain ? host_.committed : 0;
  what.feed = [&task, back](int64_t samples_seen, Feeds* feeds) {
    for (const auto& [name, tensor] : task.inputs[samples_seen / task.batch - back]) {
      feeds->emplace_back(name, &tensor);
    }
    return absl::OkStatus();
  };
  what.stop = AgreedStop(session, [&rank] { return rank.asked_to_stop; });
  ProgressPrinter printer(host_.printed, /*terminal=*/false, /*columns=*/0,
                          /*seconds_between=*/1e9);
  Trainer trainer(session, options, what, &printer);
  if (!checkpoint.empty()) RETURN_IF_ERROR(Restore(n, checkpoint, session, &trainer));
  ASSIGN_OR_RETURN(const TrainingRecord record, trainer.Run());
  rank.failed_saves = record.failed_saves;
  return CheckRecord(n, record, session);
}

absl::Status SimulatedStart::Restore(int32_t n, const std::string& path, Session* session,
                                     Trainer* trainer) {
  ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Load(path));
  std::vector<std::pair<std::string, std::pair<Box, HostTensor>>> initial;
  for (const VariableInfo& variable : session->variables()) {
    ASSIGN_OR_RETURN(const auto boxes, session->boxes(variable.name));
    for (const VariableBox& each : boxes) {
      ASSIGN_OR_RETURN(HostTensor value, session->ReadBox(variable.name, each.box));
      initial.push_back({variable.name, {each.box, std::move(value)}});
    }
  }
  RETURN_IF_ERROR(trainer->Restore(checkpoint));
  if (host_.fault == RecoveryFault::kStateForgotten && n == ranks() - 1) {
    for (const auto& [name, box] : initial) {
      RETURN_IF_ERROR(session->WriteBox(name, box.first, box.second));
    }
    return absl::OkStatus();
  }
  const absl::Status same = CheckVariables(*host_.task, checkpoint.meta().step, session);
  if (!same.ok()) Fail(AddContext(same, absl::StrCat("rank ", n, " is restored")));
  return absl::OkStatus();
}

absl::Status SimulatedStart::CheckRecord(int32_t n, const TrainingRecord& record,
                                         Session* session) {
  const SimulatedTask& task = *host_.task;
  for (const PlotPoint& loss : record.losses) {
    const double expected = task.losses[static_cast<int64_t>(loss.x) - 1];
    if (loss.y == expected) continue;
    Fail(absl::DataLossError(
        absl::StrCat("loss of step ", loss.x, ": expected ", expected, ", got ", loss.y)));
  }
  const absl::Status same = CheckVariables(task, record.steps_done, session);
  // Of a rank that others have left there is nothing to be read any more.
  RETURN_IF_ERROR(session->status());
  if (!same.ok()) Fail(AddContext(same, absl::StrCat("rank ", n)));
  ranks_[n].finished = record.steps_done == task.steps();
  return absl::OkStatus();
}

}  // namespace sluice
