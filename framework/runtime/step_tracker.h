// Where workers and the session's thread meet: which steps have ended everywhere, and the first
// error. A worker touches an atomic once a step, and the last one the lock. Any thread.
#ifndef SLUICE_FRAMEWORK_RUNTIME_STEP_TRACKER_H_
#define SLUICE_FRAMEWORK_RUNTIME_STEP_TRACKER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "framework/actor/worker_policy.h"
#include "framework/runtime/executor.h"

namespace sluice {

// Who is told that a step's workers here are through, where other ranks take part.
class StepEnds {
 public:
  virtual ~StepEnds() = default;
  virtual void EndedHere(int program, int64_t step) = 0;
};

class StepTracker {
 public:
  // Without an executor the session's thread sleeps while it waits.
  explicit StepTracker(int programs, Executor* executor = nullptr)
      : programs_(programs), executor_(executor) {}

  // Before any step: steps do not end with their workers, but when End is called.
  void set_ends(StepEnds* ends) { ends_ = ends; }
  // Before any step: called once, when the first error comes, by whoever has it.
  void set_failure(std::function<void()> told) { told_of_failure_ = std::move(told); }

  // The session: a step begins in which `workers` workers take part. At most kStepsAhead run.
  void Begin(int program, int32_t workers) {
    Program& p = programs_[program];
    p.running[p.begun % kStepsAhead].store(workers, std::memory_order_relaxed);
    ++p.begun;
    all_begun_.fetch_add(1, std::memory_order_relaxed);
  }
  // Steps of all programs, for those who watch: begun, through here, over everywhere.
  struct Counts {
    int64_t begun = 0, through = 0, over = 0;
  };
  Counts counts() const { return {all_begun_.load(), all_through_.load(), all_over_.load()}; }
  int64_t begun(int program) const { return programs_[program].begun; }
  // The session: waits until `steps` steps of a program have ended since the start, or none will.
  void WaitEnded(int program, int64_t steps) {
    std::unique_lock<std::mutex> lock(mutex_);
    WaitUntil(executor_, "the end of a step", &lock, &ended_,
              [&] { return aborted_ || programs_[program].ended >= steps; });
  }

  // A worker: its actors have done their part of a step. Release and acquire order its work before
  // the session's reading of results.
  void WorkerEnded(int program, int64_t step) {
    std::atomic<int32_t>& running = programs_[program].running[step % kStepsAhead];
    if (running.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
    all_through_.fetch_add(1, std::memory_order_relaxed);
    ends_ == nullptr ? End(program) : ends_->EndedHere(program, step);
  }
  // The next step of a program has ended everywhere.
  void End(int program) {
    std::lock_guard<std::mutex> lock(mutex_);
    ++programs_[program].ended;
    all_over_.fetch_add(1, std::memory_order_relaxed);
    ended_.notify_all();
  }

  bool aborted() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return aborted_;
  }
  // In one order with what RankLink::PullEnded writes before it asks.
  bool failed() const { return failed_.load(std::memory_order_seq_cst); }
  // Keeps the first error.
  void Fail(const absl::Status& status) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (own_.ok() && !failed_.load(std::memory_order_relaxed)) own_ = status;
    }
    SetFailed();
  }
  // Another rank's step has failed: kernels are skipped here, too. Which error it was comes with
  // the step's end.
  void Skip() { SetFailed(); }
  // What all ranks say the error is.
  void Agree(const absl::Status& status) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (agreed_.ok()) agreed_ = status;
    }
    SetFailed();
  }
  // No step that runs will ever end.
  void Abort(const absl::Status& status) {
    Agree(status);
    std::lock_guard<std::mutex> lock(mutex_);
    aborted_ = true;
    ended_.notify_all();
  }
  // The error of a kernel here.
  absl::Status own_status() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return own_;
  }
  // With other ranks it is what all of them say. What only this one knows it tells at the end of a
  // step: were it to leave before it begins that, as a collective of the last one has failed, peers
  // that are in the step already would hear no reason, nor would it.
  absl::Status status() const {
    if (!failed()) return absl::OkStatus();
    std::lock_guard<std::mutex> lock(mutex_);
    return agreed_.ok() && ends_ == nullptr ? own_ : agreed_;
  }

 private:
  struct Program {
    std::atomic<int32_t> running[kStepsAhead] = {};
    int64_t begun = 0;  // the session's
    int64_t ended = 0;  // guarded by mutex_
  };

  void SetFailed() {
    if (!failed_.exchange(true, std::memory_order_seq_cst) && told_of_failure_) told_of_failure_();
  }

  std::vector<Program> programs_;
  Executor* const executor_;
  StepEnds* ends_ = nullptr;
  std::function<void()> told_of_failure_;
  std::atomic<int64_t> all_begun_{0}, all_through_{0}, all_over_{0};
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  // Read at every instruction; the rest of its cache line is as still.
  alignas(64) std::atomic<bool> failed_{false};
  bool aborted_ = false;       // guarded by mutex_
  absl::Status own_, agreed_;  // guarded by mutex_
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_RUNTIME_STEP_TRACKER_H_
