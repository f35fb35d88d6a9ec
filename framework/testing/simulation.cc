#include "framework/testing/simulation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"

namespace sluice {
namespace {

using std::chrono::microseconds;

// What an event of a process is, in the digest.
enum ProcessEvent : uint64_t { kStart = 1, kResume, kTurn, kSleep };

}  // namespace

Simulation::Duration Simulation::Draw(Duration most) {
  const auto shift = static_cast<unsigned>(random_.Below(9));
  return Duration(random_.Below(static_cast<size_t>(most.count() >> shift) + 1));
}

void Simulation::After(Duration delay, uint64_t what, std::function<void()> run) {
  queue_.push_back({now_ + delay, numbered_++, what, std::move(run)});
  std::push_heap(queue_.begin(), queue_.end());
}

bool Simulation::Next() {
  if (queue_.empty()) return false;
  std::pop_heap(queue_.begin(), queue_.end());
  const Event event = std::move(queue_.back());
  queue_.pop_back();
  now_ = event.when;
  ++events_;
  for (const uint64_t word : {static_cast<uint64_t>(now_.time_since_epoch().count()), event.what}) {
    digest_ = (digest_ ^ word) * 0x100000001B3ull;
  }
  event.run();
  return true;
}

SimulatedProcess::SimulatedProcess(Simulation* simulation, int32_t number,
                                   std::function<void()> main)
    : simulation_(*simulation),
      number_(number),
      fiber_(std::move(main)),
      // One rank may be a hundred times as slow as another.
      instruction_(microseconds(10) * (1 << simulation->random().Below(8))) {}

// After a violation it may stand in the middle of something for ever.
SimulatedProcess::~SimulatedProcess() {
  SLUICE_CHECK(!started_ || over() || !simulation_.violation().ok());
}

void SimulatedProcess::Start() {
  started_ = true;
  After(simulation_.Draw(std::chrono::milliseconds(10)), kStart, [this] { fiber_.Resume(); });
}

void SimulatedProcess::After(Simulation::Duration delay, uint64_t what, std::function<void()> run) {
  simulation_.After(delay, what << 8 | static_cast<uint64_t>(number_),
                    [this, what, run = std::move(run)] {
                      if (killed_) return;
                      if (stands_until_ > simulation_.now()) {
                        return After(stands_until_ - simulation_.now(), what, run);
                      }
                      run();
                      Consider();
                    });
}

// Gives a turn to all that has something to do, each in a time of its own.
void SimulatedProcess::Consider() {
  if (killed_) return;
  for (const auto& turns : tasks_) {
    if (turns->due || turns->task == nullptr || !turns->task->HasWork()) continue;
    turns->due = true;
    After(simulation_.Draw(instruction_), kTurn, [turns = turns.get()] {
      turns->due = false;
      if (turns->task != nullptr) turns->task->Turn();
    });
  }
  if (due_ || ready_ == nullptr || !(*ready_)()) return;
  due_ = true;
  After(simulation_.Draw(instruction_), kResume, [this] { Resume(); });
}

void SimulatedProcess::Resume() {
  due_ = false;
  if (!fiber_.done() && !fiber_.running()) fiber_.Resume();
}

void SimulatedProcess::WaitUntil(const char* what, const std::function<bool()>& ready) {
  SLUICE_CHECK(fiber_.running());
  waits_for_ = what;
  while (!ready()) {
    if (killed_) {
      simulation_.Fail(absl::InternalError(
          absl::StrCat("process ", number_, " has lost all others and still waits for ", what)));
    }
    ready_ = &ready;
    fiber_.Pause();
    ready_ = nullptr;
  }
  waits_for_ = "";
}

void SimulatedProcess::Sleep(Simulation::Duration time) {
  if (killed_) return;
  bool over = false;
  After(time, kSleep, [&over] { over = true; });
  WaitUntil("time to pass", [&] { return over || killed_; });
}

void SimulatedProcess::Kill() {
  if (killed_ || over()) return;
  killed_ = true;
  if (on_killed_) on_killed_();
  // In the middle of main, it unwinds as soon as that goes on.
  if (!started_ || fiber_.running()) return;
  while (!fiber_.done() && simulation_.violation().ok()) fiber_.Resume();
}

void SimulatedProcess::StandStillUntil(Simulation::Clock::time_point until) {
  stands_until_ = std::max(stands_until_, until);
}

void SimulatedProcess::Add(Task* task) { tasks_.push_back(std::make_unique<Turns>(Turns{task})); }

void SimulatedProcess::Remove(Task* task) {
  for (const auto& turns : tasks_) {
    if (turns->task == task) turns->task = nullptr;
  }
}

std::string SimulatedProcess::WaitsFor() const {
  std::string text;
  if (ready_ != nullptr)
    absl::StrAppend(&text, "process ", number_, " waits for ", waits_for_, "\n");
  for (const auto& turns : tasks_) {
    const std::string waits = turns->task == nullptr ? "" : turns->task->WaitsFor();
    if (!waits.empty()) absl::StrAppend(&text, "process ", number_, ": ", waits, "\n");
  }
  return text;
}

}  // namespace sluice
