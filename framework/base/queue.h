// An unbounded queue with many producers and one owner, who may sleep on it. Push and Wake: any
// thread. Everything else: the owner's thread alone. Items are plain values; those of one producer
// stay in order. It allocates only while it grows past the largest number of items it ever held.
#ifndef SLUICE_FRAMEWORK_BASE_QUEUE_H_
#define SLUICE_FRAMEWORK_BASE_QUEUE_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <type_traits>
#include <vector>

namespace sluice {

// What the owner sleeps on: a flag that spins for a while, then waits in the kernel. Signals are
// not counted.
class Doorbell {
 public:
  using Clock = std::chrono::steady_clock;

  // Any thread. Costs a system call only when the owner sleeps.
  void Ring();
  // The owner. True if rung since the last Clear, perhaps after waiting; false once the deadline
  // passed.
  bool Wait(std::chrono::microseconds spin, std::optional<Clock::time_point> deadline);
  // The owner. True if it was rung since the last Clear. Clear first, then look at what the bell
  // stands for: a ring in between is not lost.
  bool Clear() {
    if (state_.load() != kRung) return false;
    state_.store(kQuiet);
    return true;
  }

 private:
  enum State : uint32_t { kQuiet, kRung, kSleeping };
  std::atomic<uint32_t> state_{kQuiet};
};

template <typename T>
class Queue {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  using Clock = Doorbell::Clock;

  // Room for `capacity` items before the first growth.
  explicit Queue(size_t capacity = 1024) {
    inbox_.reserve(capacity);
    taken_.reserve(capacity);
  }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  void Push(const T& item) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      inbox_.push_back(item);
    }
    bell_.Ring();
  }

  // Makes the owner's WaitNonEmpty, the running or the next one, return.
  void Wake() {
    woken_.store(true);
    bell_.Ring();
  }

  // The oldest item; false if there is none.
  bool Pop(T* item) {
    if (next_ == taken_.size() && !Take()) return false;
    *item = taken_[next_++];
    return true;
  }

  // Appends every item to *items; false if there were none.
  bool PopAll(std::vector<T>* items) {
    const size_t before = items->size();
    do {
      items->insert(items->end(), taken_.begin() + next_, taken_.end());
      next_ = taken_.size();
    } while (Take());
    return items->size() != before;
  }

  // Waits for an item: spins for `spin`, then sleeps. False if woken by Wake or at the deadline
  // without one.
  bool WaitNonEmpty(std::chrono::microseconds spin,
                    std::optional<Clock::time_point> deadline = std::nullopt) {
    while (next_ == taken_.size() && !Take()) {
      if (woken_.exchange(false)) return false;
      if (!bell_.Wait(spin, deadline)) return false;
    }
    return true;
  }

 private:
  // Swaps the empty taken_ with the inbox; false if that is empty too.
  bool Take() {
    if (!bell_.Clear()) return false;  // one load tells a busy owner that there is nothing new
    taken_.clear();
    next_ = 0;
    std::lock_guard<std::mutex> lock(mutex_);
    taken_.swap(inbox_);
    return !taken_.empty();
  }

  Doorbell bell_;
  std::atomic<bool> woken_{false};
  std::mutex mutex_;
  std::vector<T> inbox_;  // guarded by mutex_
  std::vector<T> taken_;  // the owner's, as is next_: the first item not yet popped
  size_t next_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_BASE_QUEUE_H_
