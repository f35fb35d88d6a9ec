// Runs workers and lets sessions wait where they have no threads of their own: one thread then runs
// all ranks of a job, in an order of its choice (testing/simulation.h). For tests.
#ifndef SLUICE_FRAMEWORK_RUNTIME_EXECUTOR_H_
#define SLUICE_FRAMEWORK_RUNTIME_EXECUTOR_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>

namespace sluice {

class Executor {
 public:
  // A worker.
  class Task {
   public:
    virtual ~Task() = default;
    // Whether a turn would do anything.
    virtual bool HasWork() const = 0;
    // Does the next thing; of instructions one.
    virtual void Turn() = 0;
    // For people: what it waits for; "" if for nothing.
    virtual std::string WaitsFor() const = 0;
  };

  virtual ~Executor() = default;
  virtual void Add(Task* task) = 0;
  // It gets no turn any more.
  virtual void Remove(Task* task) = 0;
  // The session: returns when ready() is true. `what` is waited for, for people.
  virtual void WaitUntil(const char* what, const std::function<bool()>& ready) = 0;
};

// Waits until ready(), which is asked while `lock` is held. Whoever makes it true notifies
// `changed`. Without an executor the thread sleeps.
template <typename Ready>
void WaitUntil(Executor* executor, const char* what, std::unique_lock<std::mutex>* lock,
               std::condition_variable* changed, const Ready& ready) {
  if (executor == nullptr) return changed->wait(*lock, ready);
  lock->unlock();
  executor->WaitUntil(what, [&] {
    const std::lock_guard<std::mutex> held(*lock->mutex());
    return ready();
  });
  lock->lock();
}

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_RUNTIME_EXECUTOR_H_
