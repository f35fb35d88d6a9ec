// Says whom a step waits for when nothing moves any more, and which device makes the others slow. A
// thread of its own looks at counters now and then; workers are asked only when nothing has moved
// for the limit. Then each rank that waits logs its waits, the lowest of them asks all ranks for
// theirs and logs the one that everybody waits for. Nothing is ended here.
#ifndef SLUICE_FRAMEWORK_RUNTIME_WAIT_WATCH_H_
#define SLUICE_FRAMEWORK_RUNTIME_WAIT_WATCH_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "framework/comm/comm_net.h"
#include "framework/plan/plan.pb.h"
#include "framework/runtime/step_tracker.h"
#include "framework/runtime/waits.h"

namespace sluice {

class RankLink;
class WaitTable;
class Worker;
struct RunningProgram;

class WaitWatch {
 public:
  struct Setup {
    const plan::Plan* plan = nullptr;
    const std::vector<RunningProgram>* programs = nullptr;
    const std::vector<std::unique_ptr<Worker>>* workers = nullptr;
    const StepTracker* tracker = nullptr;
    WaitTable* table = nullptr;
    CommNet* net = nullptr;           // null: there is one rank
    std::chrono::milliseconds limit;  // above 0
  };
  explicit WaitWatch(const Setup& setup);
  ~WaitWatch() { Stop(); }

  // The workers run, and the ranks have joined. `link` is null where there is one rank.
  absl::Status Start(RankLink* link);
  void Stop();

  // The net: kAskWaits and kWaits, from Open on.
  void Receive(int32_t from, const WireMessage& message);

 private:
  using Clock = std::chrono::steady_clock;
  // A time without progress that passed, and how many steps were over then.
  struct Passed {
    int64_t over;
    Clock::duration time;
  };

  void Main();
  void Look(Clock::time_point now);
  void Handle(int32_t from, const WireMessage& message);
  void Lead();
  void Conclude();
  void Sample();
  bool IsCpu(int32_t device) const;
  void EndWindow(Clock::time_point now);
  void Judge();
  void CountAway(Clock::duration since);
  bool Overslept(Clock::time_point now);
  int64_t Moved() const;
  Clock::duration Limit() const;
  // Of this rank as it stands; with streams it asks the workers.
  RankWaits Here(bool streams);
  void Send(int32_t to, WireMessage::Kind kind, int64_t sequence, const std::string& bytes);
  int32_t rank() const { return setup_.net == nullptr ? 0 : setup_.net->rank(); }
  int32_t ranks() const { return setup_.net == nullptr ? 1 : setup_.net->ranks(); }

  const Setup setup_;
  RankLink* link_ = nullptr;
  std::string host_;
  std::thread thread_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;  // all guarded by mutex_
  std::deque<std::pair<int32_t, WireMessage>> inbox_;

  // The thread's.
  int64_t moved_ = -1;
  Clock::time_point looked_at_, moved_at_, told_at_;
  bool waits_ = false, told_ = false, led_ = false, stood_still_ = false;
  RankWaits mine_;  // as they were told
  std::deque<Passed> passed_;
  int64_t round_ = 0;  // of questions to ranks
  Clock::time_point round_ends_;
  bool round_open_ = false;
  std::vector<RankAnswer> answers_;  // by rank; names stay

  // The share of samples in which a device computed, in this window.
  std::vector<int64_t> busy_;      // by device
  Clock::duration away_ = {};      // of the window, in which the process did not run
  Clock::duration used_ = {};      // of the window, by the CPUs of the process
  Clock::duration cpu_time_ = {};  // of the process, at the last look
  bool ticks_ = false;             // the thread means to look again soon
  int64_t samples_ = 0, window_over_ = 0;
  Clock::time_point window_begin_;
  std::map<int32_t, RankWaits> loads_;               // on rank 0, of the newest window of each
  std::optional<std::pair<int32_t, int32_t>> slow_;  // the straggler that was told of
  double step_seconds_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_RUNTIME_WAIT_WATCH_H_
