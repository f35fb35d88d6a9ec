#include "framework/testing/simulated_job.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/testing/simulation.h"

namespace sluice {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Time = Simulation::Clock::time_point;

// Until all ranks know that one is lost, beside the silence of that one.
constexpr auto kEndLimit = seconds(20);
// Until a start has trained to the end, whatever makes it slow.
constexpr auto kStartLimit = seconds(300);
constexpr auto kBetweenStarts = seconds(5);
constexpr int32_t kMostStarts = 16;

enum class Disturbance {
  kKill,        // a process
  kHostDies,    // the same, and its connections do not end
  kStandStill,  // a process, for so long that it is given up
  kSlow,        // the same, for less
  kCut,         // of two ranks, for so long that they give each other up
  kShortCut,
  kKernelError,
  kDiskError,
  kKillAtDisk,  // a process right before one of its operations on the disk
  kPowerLoss,   // of all
  kStop,        // a rank is asked to stop
};
constexpr const char* kDisturbanceNames[] = {
    "kill",         "host dies",  "stand still",  "slow",       "cut", "short cut",
    "kernel error", "disk error", "kill at disk", "power loss", "stop"};
constexpr int kDisturbances = static_cast<int>(std::size(kDisturbanceNames));

// Whether a start may end with an error then.
bool EndsTheStart(Disturbance disturbance) {
  return disturbance != Disturbance::kSlow && disturbance != Disturbance::kShortCut &&
         disturbance != Disturbance::kDiskError && disturbance != Disturbance::kStop;
}

class SimulatedJob {
 public:
  SimulatedJob(const SimulatedTask& task, const SimulatedJobOptions& options)
      : options_(options), simulation_(options.seed) {
    host_.simulation = &simulation_;
    host_.task = &task;
    host_.folder = options.folder;
    host_.fault = options.recovery_fault;
    net_.ordered = !simulation_.Chance(25);
    net_.way = static_cast<PullWay>(simulation_.random().Below(4));
    net_.most_delay = microseconds(100) * (1 << simulation_.random().Below(10));
    net_.fault = options.net_fault;
    impatient_ = simulation_.Chance(30);
    static constexpr int kHowMany[] = {0, 1, 1, 1, 1, 2, 2, 3};
    const int disturbances = kHowMany[simulation_.random().Below(std::size(kHowMany))];
    for (int n = 0; n < disturbances && options.disturbed; ++n) {
      planned_.push_back({simulation_.random().Below(int64_t{100} << simulation_.random().Below(6)),
                          static_cast<Disturbance>(simulation_.random().Below(kDisturbances))});
    }
    std::sort(planned_.begin(), planned_.end());
  }
  ~SimulatedJob() {
    if (host_.printed != nullptr) fclose(host_.printed);
  }

  absl::Status Run();
  SimulatedRun Summary() const {
    SimulatedRun run;
    run.digest = simulation_.digest();
    run.events = simulation_.events();
    run.starts = static_cast<int32_t>(starts_.size());
    run.disturbances = disturbances_;
    for (const Start& start : starts_) run.overtaken += start.start->net().overtaken();
    run.seconds = simulation_.seconds();
    run.story = story_;
    return run;
  }

 private:
  struct Start {
    std::unique_ptr<SimulatedStart> start;
    bool ends = false;  // something has struck that it need not survive
    bool disk_error = false;
    bool checked = false;
    std::string reason;   // of a kernel's error, if nothing else has struck
    Time must_end{};      // at last
    bool ending = false;  // it has failed
  };
  using Planned = std::pair<int64_t, Disturbance>;  // at which event

  void StartAnother();
  void Strike(Disturbance disturbance);
  void StrikeRank(Disturbance disturbance, int32_t n);
  void Watch();
  void Check(Start* start);
  absl::Status CheckEnd();
  bool AllOver() const {
    return std::all_of(starts_.begin(), starts_.end(),
                       [](const Start& start) { return start.start->over(); });
  }
  bool Finished() const { return starts_.back().start->finished(); }
  Start& newest() { return starts_.back(); }
  void Tell(const std::string& what) {
    absl::StrAppendFormat(&story_, "%.6f s, event %d: %s\n", simulation_.seconds(),
                          simulation_.events(), what);
  }
  void Fail(const absl::Status& violation) { simulation_.Fail(violation); }

  const SimulatedJobOptions options_;
  Simulation simulation_;
  SimulatedHost host_;
  SimulatedNetOptions net_;
  bool impatient_ = false;  // the launcher does not wait for all to end
  std::vector<Planned> planned_;
  std::vector<Start> starts_;
  Time next_start_{};
  int32_t disturbances_ = 0;
  std::string story_;
};

void SimulatedJob::StartAnother() {
  Tell(absl::StrCat("start ", starts_.size()));
  const auto number = static_cast<int32_t>(starts_.size());
  starts_.emplace_back();
  newest().start = std::make_unique<SimulatedStart>(&host_, number, net_);
  newest().must_end = simulation_.now() + kStartLimit;
  newest().start->Begin();
}

void SimulatedJob::Strike(Disturbance disturbance) {
  const int32_t n = simulation_.random().Below(newest().start->ranks());
  if (!newest().start->rank(n).process->lives()) return;
  ++disturbances_;
  Tell(absl::StrCat(kDisturbanceNames[static_cast<int>(disturbance)], " of rank ", n, " of start ",
                    starts_.size() - 1));
  newest().ends = newest().ends || EndsTheStart(disturbance);
  newest().reason.clear();
  StrikeRank(disturbance, n);
}

void SimulatedJob::StrikeRank(Disturbance disturbance, int32_t n) {
  SimulatedStart& start = *newest().start;
  SimulatedStart::Rank& rank = start.rank(n);
  Xorshift& random = simulation_.random();
  const auto long_enough = net_.silence_limit + seconds(1 + random.Below(20));
  const auto short_enough = milliseconds(random.Below(4000));
  switch (disturbance) {
    case Disturbance::kKill:
    case Disturbance::kHostDies:
      return start.Kill(n, disturbance == Disturbance::kHostDies);
    case Disturbance::kStandStill:
    case Disturbance::kSlow: {
      const bool is_long = disturbance == Disturbance::kStandStill;
      const auto until = simulation_.now() + (is_long ? long_enough : short_enough);
      rank.process->StandStillUntil(until);
      return;
    }
    case Disturbance::kCut:
    case Disturbance::kShortCut: {
      const bool is_long = disturbance == Disturbance::kCut;
      start.net().CutUntil(n, (n + 1) % start.ranks(),
                           simulation_.now() + (is_long ? long_enough : short_enough));
      return;
    }
    case Disturbance::kKernelError:
      rank.kernel_fault.reason = absl::StrCat("planted on rank ", n);
      rank.kernel_fault.step = random.Below(host_.task->steps());
      if (disturbances_ == 1) newest().reason = rank.kernel_fault.reason;
      return;
    case Disturbance::kDiskError: {
      static constexpr DiskFault kErrors[] = {DiskFault::kErrorOnce, DiskFault::kFullOnce,
                                              DiskFault::kShort, DiskFault::kFull};
      rank.disk->FailAt(random.Below(40), kErrors[random.Below(std::size(kErrors))]);
      newest().disk_error = true;
      return;
    }
    case Disturbance::kKillAtDisk:
      rank.silent = random.Below(2) == 0;
      return rank.disk->FailAt(random.Below(40), DiskFault::kKill);
    case Disturbance::kPowerLoss:
      for (Start& each : starts_) {
        each.ends = true;
        for (int32_t r = 0; r < each.start->ranks(); ++r) each.start->Kill(r, /*silently=*/true);
      }
      host_.disk.LosePower();
      host_.committed = host_.on_disk;
      return;
    case Disturbance::kStop:
      rank.asked_to_stop = true;
  }
}

// What must hold at each moment and when a start is over.
void SimulatedJob::Watch() {
  for (Start& start : starts_) {
    if (start.checked) continue;
    if (start.start->over()) {
      Check(&start);
      continue;
    }
    if (start.start->failed() && !std::exchange(start.ending, true)) {
      start.must_end = simulation_.now() + net_.silence_limit + kEndLimit;
    }
    // Who stands still knows nothing before it goes on.
    if (simulation_.now() < std::max(start.must_end, start.start->StandsUntil() + kEndLimit)) {
      continue;
    }
    Fail(absl::DeadlineExceededError(absl::StrCat("start ", start.start->number(),
                                                  " does not end; who waits for whom:\n",
                                                  start.start->WaitsFor())));
  }
}

void SimulatedJob::Check(Start* start) {
  start->checked = true;
  const int32_t number = start->start->number();
  const int64_t failed_step = start->start->FailedStep();
  bool excused = start->ends;
  for (int32_t n = 0; n < start->start->ranks(); ++n) {
    const SimulatedStart::Rank& rank = start->start->rank(n);
    if (rank.process->killed()) continue;
    Tell(absl::StrCat("start ", number, ", rank ", n, ": ", rank.status->ToString()));
    // Another start has the folder, or the disk takes no log.
    excused = excused || absl::IsAlreadyExists(*rank.status) ||
              (start->disk_error && absl::StrContains(rank.status->message(), "log.jsonl"));
    if (rank.failed_saves > 0 && !start->disk_error && !start->ends) {
      Fail(absl::InternalError(absl::StrCat("start ", number, ", rank ", n, ": ", rank.failed_saves,
                                            " saves failed on a disk that is whole")));
    }
    if (failed_step >= 0 && rank.steps_taken > failed_step) {
      Fail(absl::InternalError(absl::StrCat("start ", number, ", rank ", n, ": took ",
                                            rank.steps_taken, " steps, of which step ", failed_step,
                                            " failed on another rank")));
    }
    if (start->reason.empty() || rank.status->ok()) continue;
    if (absl::StrContains(rank.status->message(), start->reason)) continue;
    Fail(absl::InternalError(absl::StrCat("start ", number, ", rank ", n, ": expected the error ",
                                          start->reason, ", as on others, got ",
                                          rank.status->ToString())));
  }
  if (excused || !start->start->failed()) return;
  Fail(absl::InternalError(
      absl::StrCat("start ", number, " has failed for no reason:\n", start->start->WaitsFor())));
}

// The last checkpoint is the last step's, unless the disk did not take it.
absl::Status SimulatedJob::CheckEnd() {
  if (host_.committed == 0 && newest().disk_error) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string latest, LatestCheckpoint(options_.folder + "/checkpoints"));
  RETURN_IF_ERROR(CheckCheckpoint(*host_.task, latest));
  ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Load(latest));
  const int64_t step = checkpoint.meta().step;
  if (step == host_.committed && (step == host_.task->steps() || newest().disk_error)) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat("trained to the end: expected a checkpoint of step ",
                                          host_.task->steps(), ", got ", step));
}

absl::Status SimulatedJob::Run() {
  std::filesystem::remove_all(options_.folder);
  std::filesystem::create_directories(options_.folder);
  host_.printed = fopen("/dev/null", "w");
  StartAnother();
  while (simulation_.violation().ok()) {
    Watch();
    if (Finished() && AllOver()) break;
    const bool all_over = AllOver();
    if (all_over || (impatient_ && newest().start->failed())) {
      if (next_start_ == Time{}) {
        next_start_ = simulation_.now() + kBetweenStarts;
        simulation_.After(kBetweenStarts, 0, [] {});
      } else if (simulation_.now() >= next_start_) {
        next_start_ = Time{};
        if (starts_.size() == kMostStarts) {
          Fail(absl::InternalError("it never comes to an end"));
          break;
        }
        StartAnother();
      }
    }
    if (!planned_.empty() && simulation_.events() >= planned_.front().first) {
      const Disturbance disturbance = planned_.front().second;
      planned_.erase(planned_.begin());
      Strike(disturbance);
    }
    if (!simulation_.Next()) {
      Fail(absl::InternalError(absl::StrCat("nothing happens any more; who waits for whom:\n",
                                            newest().start->WaitsFor())));
    }
  }
  if (simulation_.violation().ok()) Fail(CheckEnd());
  return simulation_.violation();
}

}  // namespace

absl::Status RunSimulatedJob(const SimulatedTask& task, const SimulatedJobOptions& options,
                             SimulatedRun* run) {
  SimulatedJob job(task, options);
  const absl::Status status = job.Run();
  *run = job.Summary();
  return AddContext(status, absl::StrCat("seed ", options.seed, ", ", task.name, "\n", run->story));
}

}  // namespace sluice
