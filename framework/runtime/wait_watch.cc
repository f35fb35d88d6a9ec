#include "framework/runtime/wait_watch.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/log.h"
#include "framework/base/thread.h"
#include "framework/plan/kinds.h"
#include "framework/runtime/rank_link.h"
#include "framework/runtime/wait_table.h"
#include "framework/runtime/worker.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;

// Between two looks while steps run, and while none does.
constexpr milliseconds kTick(20), kIdleTick(250);
// A rank that has not said by then what it waits for stands still.
constexpr milliseconds kRankLimit(1500);
// One of kWaitLeaders asks all others, after so long for each rank below it that did not.
constexpr milliseconds kLeaderDelay(700);
// A thread that sleeps for longer than it wanted to was stopped, and its process with it.
constexpr milliseconds kStopped(1000);
// Messages of each rank that wait to be looked at.
constexpr size_t kMostMessages = 16;
// What has taken long before, in this many steps, is told only when it takes so much longer.
constexpr int64_t kRemembered = 16;
constexpr int kLonger = 3;
// Loads are of so many steps at least, and of this part of the limit.
constexpr int64_t kWindowSteps = 8;
constexpr int kWindowsOfLimit = 2;

std::chrono::steady_clock::duration ProcessCpuTime() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

double Seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

WaitWatch::WaitWatch(const Setup& setup) : setup_(setup), host_(HostName()) {
  answers_.resize(ranks());
  busy_.resize(setup.plan->devices_size());
  for (int32_t rank = 0; rank < ranks(); ++rank) answers_[rank].name = absl::StrCat("rank ", rank);
}

absl::Status WaitWatch::Start(RankLink* link) {
  link_ = link;
  const std::string here = WaitsToBytes(Here(/*streams=*/false));
  for (int32_t to = 0; to < std::min(kWaitLeaders, ranks()); ++to) {
    Send(to, WireMessage::Kind::kWaits, kIntroduction, here);
  }
  looked_at_ = moved_at_ = window_begin_ = Clock::now();
  return StartThread([this] { Main(); }, &thread_);
}

void WaitWatch::Stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void WaitWatch::Receive(int32_t from, const WireMessage& message) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    // Who asks faster than it is answered is not answered.
    if (stop_ || inbox_.size() >= kMostMessages * static_cast<size_t>(ranks())) return;
    inbox_.emplace_back(from, message);
  }
  changed_.notify_all();
}

void WaitWatch::Send(int32_t to, WireMessage::Kind kind, int64_t sequence,
                     const std::string& bytes) {
  WireMessage message;
  message.kind = kind;
  message.sequence = sequence;
  message.text = bytes;
  if (to == rank()) return Receive(to, message);
  setup_.net->Send(to, std::move(message));
}

void WaitWatch::Main() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    const StepTracker::Counts steps = setup_.tracker->counts();
    ticks_ = steps.begun > steps.over;
    changed_.wait_for(lock, ticks_ ? kTick : kIdleTick,
                      [this] { return stop_ || !inbox_.empty(); });
    if (stop_) return;
    std::deque<std::pair<int32_t, WireMessage>> came;
    came.swap(inbox_);
    lock.unlock();
    for (const auto& [from, message] : came) Handle(from, message);
    Look(Clock::now());
    lock.lock();
  }
}

// Anything that has happened here makes it another number.
int64_t WaitWatch::Moved() const {
  const StepTracker::Counts steps = setup_.tracker->counts();
  int64_t moved = steps.begun + steps.through + steps.over;
  for (const auto& worker : *setup_.workers) moved += worker->statistics().instructions;
  if (link_ == nullptr) return moved;
  const auto [asked, answered] = link_->questions();
  return moved + asked + answered;
}

// The time since the last look, in which this thread meant to sleep for a tick. Where it slept much
// longer, and the process used little of a core meanwhile, the process was stopped or had no core:
// its own threads, if they keep this one waiting, use more.
void WaitWatch::CountAway(Clock::duration since) {
  const Clock::duration cpu = ProcessCpuTime();
  const Clock::duration used = cpu - cpu_time_;
  cpu_time_ = cpu;
  used_ += used;
  const bool late = since > (ticks_ ? kTick : kIdleTick) * 3 / 2;
  if (late && used < since / 2) away_ += since - used;
}

bool WaitWatch::Overslept(Clock::time_point now) {
  const auto away = now - looked_at_;
  looked_at_ = now;
  CountAway(away);
  if (away < kIdleTick + kStopped) return false;
  SLUICE_LOG(WARNING) << absl::StrFormat("this process stood still for %.1f s", Seconds(away));
  moved_at_ += away;
  told_at_ += away;
  return true;
}

WaitWatch::Clock::duration WaitWatch::Limit() const {
  Clock::duration limit = setup_.limit;
  for (const Passed& passed : passed_) limit = std::max(limit, kLonger * passed.time);
  return limit;
}

void WaitWatch::Look(Clock::time_point now) {
  Overslept(now);
  const StepTracker::Counts steps = setup_.tracker->counts();
  const auto [asked, answered] =
      link_ == nullptr ? std::pair<int64_t, int64_t>(0, 0) : link_->questions();
  const int64_t moved = Moved();
  if (moved != moved_) {
    const auto quiet = now - moved_at_;
    // What a rank computed may take as long again; that one stood still says nothing of that.
    const bool slow = waits_ && !stood_still_;
    if (slow && quiet > setup_.limit / kLonger) passed_.push_back({steps.over, quiet});
    if (told_) SLUICE_LOG(WARNING) << absl::StrFormat("goes on after %.1f s", Seconds(quiet));
    while (!passed_.empty() && passed_.front().over + kRemembered < steps.over) {
      passed_.pop_front();
    }
    moved_ = moved;
    moved_at_ = now;
    told_ = led_ = round_open_ = stood_still_ = false;
  }
  waits_ = !setup_.tracker->aborted() && (steps.begun > steps.over || asked > answered);
  if (steps.begun > steps.over) Sample();
  const bool some = steps.over - window_over_ >= kWindowSteps;
  if (some && now - window_begin_ >= setup_.limit / kWindowsOfLimit) EndWindow(now);
  if (waits_ && !told_ && now - moved_at_ >= Limit()) {
    told_ = true;
    told_at_ = now;
    mine_ = Here(/*streams=*/true);
    SLUICE_LOG(WARNING) << WaitsText(mine_, ranks());
  }
  if (told_ && !led_ && rank() < kWaitLeaders && now - told_at_ >= rank() * kLeaderDelay) Lead();
  if (!round_open_) return;
  const bool all = std::all_of(answers_.begin(), answers_.end(),
                               [](const RankAnswer& answer) { return answer.waits.has_value(); });
  if (all || now >= round_ends_) Conclude();
}

void WaitWatch::Lead() {
  led_ = round_open_ = true;
  round_ends_ = Clock::now() + kRankLimit;
  ++round_;
  if (link_ != nullptr) link_->AskedWaits(round_);
  for (int32_t to = 0; to < ranks(); ++to) {
    answers_[to].waits.reset();
    if (to != rank()) Send(to, WireMessage::Kind::kAskWaits, round_, "");
  }
  answers_[rank()].waits = mine_;
}

void WaitWatch::Conclude() {
  round_open_ = false;
  stood_still_ = std::any_of(answers_.begin(), answers_.end(),
                             [](const RankAnswer& answer) { return !answer.waits.has_value(); });
  for (int32_t to = 0; to < ranks() && stood_still_; ++to) {
    if (to != rank()) Send(to, WireMessage::Kind::kAskWaits, kStoodStill, "");
  }
  SLUICE_LOG(WARNING) << CulpritText(rank(), answers_);
}

void WaitWatch::Handle(int32_t from, const WireMessage& message) {
  if (message.kind == WireMessage::Kind::kAskWaits) {
    led_ = true;  // whoever asked finds out for all
    stood_still_ = message.sequence == kStoodStill;
    if (stood_still_) return;
    return Send(from, WireMessage::Kind::kWaits, message.sequence,
                WaitsToBytes(Here(/*streams=*/true)));
  }
  absl::StatusOr<RankWaits> waits = WaitsFromBytes(message.text, from);
  if (!waits.ok()) {
    SLUICE_LOG(WARNING) << waits.status().message();
    return;
  }
  MakePrintable(&*waits);
  answers_[from].name = RankName(*waits, ranks());
  if (message.sequence == kLoads) {
    loads_[from] = *std::move(waits);
    return Judge();
  }
  if (message.sequence == round_ && round_open_) answers_[from].waits = *std::move(waits);
}

RankWaits WaitWatch::Here(bool streams) {
  RankWaits waits;
  waits.rank = rank();
  waits.host = host_;
  waits.process = getpid();
  const StepTracker::Counts steps = setup_.tracker->counts();
  waits.begun = steps.begun;
  waits.through = steps.through;
  waits.over = steps.over;
  if (link_ != nullptr) std::tie(waits.asked, waits.answered) = link_->questions();
  waits.quiet = Seconds(Clock::now() - moved_at_);
  if (!streams) return waits;
  waits.streams = setup_.table->Streams(waits.quiet);
  return waits;
}

void WaitWatch::Sample() {
  ++samples_;
  for (const auto& worker : *setup_.workers) {
    const Worker::Running running = worker->running();
    if (running.program < 0) continue;
    const ProgramIndex& index = (*setup_.programs)[running.program].loaded->index();
    const int32_t actor = index.ActorOf(running.instance);
    if (index.stream_kind(index.actor(actor).stream) != plan::STREAM_COMPUTE) continue;
    ++busy_[index.device_of(actor)];
  }
}

bool WaitWatch::IsCpu(int32_t device) const {
  return KindOf(setup_.plan->devices(device)) == DeviceKind::kCpu;
}

void WaitWatch::EndWindow(Clock::time_point now) {
  const int64_t over = setup_.tracker->counts().over;
  step_seconds_ = Seconds(now - window_begin_) / static_cast<double>(over - window_over_);
  RankWaits waits = Here(/*streams=*/false);
  const double window = Seconds(now - window_begin_), used = Seconds(used_) / window;
  waits.away = std::clamp(Seconds(away_) / window, 0.0, 1.0);
  away_ = used_ = {};
  double of_cpus = 0;  // the sum of what CPU devices seem to have computed
  for (int32_t device = 0; device < setup_.plan->devices_size(); ++device) {
    if (setup_.plan->devices(device).rank() != rank()) continue;
    // Samples were taken while the process ran.
    const double busy =
        static_cast<double>(busy_[device]) / static_cast<double>(std::max<int64_t>(samples_, 1));
    waits.loads.push_back({device, busy * (1 - waits.away)});
    if (IsCpu(device)) of_cpus += waits.loads.back().busy;
  }
  // Of one process of several: what they would have computed without a core is more of the time in
  // which they had none, as stops that are shorter than a tick are seen by nothing else.
  if (ranks() > 1 && of_cpus > used) {
    waits.away = std::min(1.0, waits.away + of_cpus - used);
    for (StreamLoad& load : waits.loads) {
      if (IsCpu(load.device)) load.busy *= used / of_cpus;
    }
  }
  std::fill(busy_.begin(), busy_.end(), 0);
  samples_ = 0;
  window_over_ = over;
  window_begin_ = now;
  Send(0, WireMessage::Kind::kWaits, kLoads, WaitsToBytes(waits));
}

// On rank 0, once every rank has said what its devices did in a window.
void WaitWatch::Judge() {
  if (static_cast<int32_t>(loads_.size()) < ranks()) return;
  std::vector<RankWaits> all;
  for (auto& [rank, waits] : loads_) all.push_back(std::move(waits));
  loads_.clear();
  const std::optional<Straggler> slow = FindStraggler(all);
  if (!slow.has_value()) return slow_.reset();
  const std::pair<int32_t, int32_t> who(slow->rank, slow->device);
  if (slow_ == who) return;
  slow_ = who;
  SLUICE_LOG(WARNING) << StragglerText(*slow, RankName(all[slow->rank], ranks()), step_seconds_);
}

}  // namespace sluice
