// A thread that waits for descriptors and for time, and calls back. Everything that it calls back
// it calls on its own thread, one thing after another.
#ifndef SLUICE_FRAMEWORK_WIRE_EVENT_LOOP_H_
#define SLUICE_FRAMEWORK_WIRE_EVENT_LOOP_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/wire/socket.h"

namespace sluice {

class EventLoop {
 public:
  using Clock = std::chrono::steady_clock;
  using Watch = int64_t;  // what Remove is told; never one twice

  static absl::StatusOr<std::unique_ptr<EventLoop>> Start();
  // What was posted before is still called. Afterwards nothing is.
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Any thread. What a callback of the loop calls comes after it.
  void Post(std::function<void()> call);
  // The same, and waits until it has been called; on the loop's own thread it is called at once.
  void PostAndWait(std::function<void()> call);

  // The loop's thread alone: calls `ready` when the descriptor can be read, and where `writes` is
  // set when it has become writable again, or when it has an error, with both. Each time: all that
  // there is must be read, or it is not told again. The descriptor stays open until it is removed.
  absl::StatusOr<Watch> Add(int descriptor, bool writes,
                            std::function<void(bool readable, bool writable)> ready);
  void Remove(Watch watch);
  // The loop's thread alone: calls once that time has passed.
  void After(Clock::duration time, std::function<void()> call);

 private:
  struct Watched {
    int descriptor;
    std::function<void(bool, bool)> ready;
  };

  EventLoop() = default;
  void Main();
  void RunPosted();
  int RunTimers();  // milliseconds until the next; -1: none

  Descriptor epoll_, wake_;
  std::thread thread_;
  Watch last_ = 0;  // the loop's thread's
  std::unordered_map<Watch, std::shared_ptr<Watched>> watched_;
  std::multimap<Clock::time_point, std::function<void()>> timers_;
  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;  // guarded by mutex_
  bool stop_ = false;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_WIRE_EVENT_LOOP_H_
