// An unbounded queue with many producers and one owner, who may sleep on it. Push and Wake: any
// thread. Everything else: the owner's thread alone. Items are plain values; those of one producer
// stay in order.
// It is a ring of cells, each with the number of the item it holds or waits for, so that an item
// costs its producer one cache line that the owner had, and its owner that line back. What does not
// fit into the ring goes to a list under a lock, which allocates only while it grows past the
// largest number of items it ever held.
#ifndef SLUICE_FRAMEWORK_BASE_QUEUE_H_
#define SLUICE_FRAMEWORK_BASE_QUEUE_H_

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <type_traits>
#include <vector>

#include "absl/types/span.h"

namespace sluice {

// What else the owner of a doorbell waits for: words that others change, of other processes too,
// and wake on. Calls are the owner's.
class OtherBells {
 public:
  struct Word {
    const std::atomic<uint32_t>* word;
    uint32_t value;  // the owner sleeps only while this stands there
  };
  static constexpr size_t kMostWords = 63;
  virtual ~OtherBells() = default;
  virtual bool HasRung() const = 0;
  // From here on until StopListening, whoever changes one of the words wakes the owner.
  virtual absl::Span<const Word> Listen() = 0;
  virtual void StopListening() = 0;
};

// What the owner of something sleeps on until it changes. It spins for a while, then waits in the
// kernel.
class Doorbell {
 public:
  using Clock = std::chrono::steady_clock;

  // Any thread, once the change is made, by a sequentially consistent store. Costs a system call
  // only when the owner sleeps.
  void Ring() {
    if (state_.load() == kSleeping) WakeUp();
  }
  // Whether an owner can wait for other bells as well: the kernel lets it sleep on several words.
  static bool HearsOthers();
  // The owner: waits until ready(), which makes sequentially consistent loads and knows of the
  // others. False once the deadline has passed.
  template <typename Ready>
  bool Wait(Ready&& ready, std::chrono::microseconds spin,
            std::optional<Clock::time_point> deadline, OtherBells* others = nullptr) {
    if (ready()) return true;
    if (spin.count() > 0) {
      // What comes at once costs no look at the clock.
      for (int i = 0; i < kPolls; ++i) {
        if (ready()) return true;
      }
      const Clock::time_point start = Clock::now();
      const Clock::time_point end =
          deadline.has_value() ? std::min(start + spin, *deadline) : start + spin;
      do {
        for (int i = 0; i < kPolls; ++i) {
          if (ready()) return true;
          Pause();
        }
      } while (Clock::now() < end);
    }
    while (true) {
      // Either the one who rings sees that the owner sleeps, or the owner what the bell stands for.
      state_.store(kSleeping);
      absl::Span<const OtherBells::Word> words;
      if (others != nullptr) words = others->Listen();
      const bool is_ready = ready();
      const bool goes_on = !is_ready && Sleep(deadline, words);
      if (others != nullptr) others->StopListening();
      if (!goes_on) {
        state_.store(kAwake);
        return is_ready || ready();
      }
    }
  }

 private:
  enum State : uint32_t { kAwake, kSleeping };
  static constexpr int kPolls = 32;  // for each look at the clock

  static void Pause();
  void WakeUp();
  // Until woken or for no reason; false at the deadline.
  bool Sleep(std::optional<Clock::time_point> deadline, absl::Span<const OtherBells::Word> words);

  std::atomic<uint32_t> state_{kAwake};
};

inline void Doorbell::Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

template <typename T>
class Queue {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  using Clock = Doorbell::Clock;

  // The ring has room for `capacity` items or a few more.
  explicit Queue(size_t capacity = 1024) : cells_(std::bit_ceil(std::max<size_t>(capacity, 2))) {
    for (size_t i = 0; i < cells_.size(); ++i) cells_[i].number.store(i, std::memory_order_relaxed);
  }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  void Push(const T& item) {
    if (!PushToRing(item)) PushToList(item);
    bell_.Ring();
  }

  // Makes the owner's WaitNonEmpty, the running or the next one, return.
  void Wake() {
    woken_.store(true);
    bell_.Ring();
  }

  // Is there nothing to pop?
  bool Empty() const {
    if (InRing()) return false;
    return next_ < listed_.size() ? head_ != listed_at_ : !overflowing_.load();
  }

  // The oldest item; false if there is none.
  bool Pop(T* item) {
    if (next_ == listed_.size() && !InRing() && overflowing_.load()) TakeList();
    if (next_ < listed_.size() && head_ == listed_at_) {
      *item = listed_[next_++];
      return true;
    }
    if (!InRing()) return false;
    Cell& cell = At(head_);
    *item = cell.item;
    cell.number.store(head_ + cells_.size(), std::memory_order_release);
    ++head_;
    return true;
  }

  // Waits for an item: spins for `spin`, then sleeps. False if woken by Wake, by others or at the
  // deadline without one.
  bool WaitNonEmpty(std::chrono::microseconds spin,
                    std::optional<Clock::time_point> deadline = std::nullopt,
                    OtherBells* others = nullptr) {
    if (!Empty()) return true;
    const auto ready = [this, others] {
      return !Empty() || woken_.load() || (others != nullptr && others->HasRung());
    };
    const bool rung = bell_.Wait(ready, spin, deadline, others);
    if (!rung || !Empty()) return rung;
    woken_.store(false);
    return false;
  }

 private:
  // A line of its own: neighbours are written by other threads.
  static constexpr size_t kCacheLine = 64;
  // Cell i of the ring holds item n = i mod size once its number is n + 1, and waits for item n
  // while that is n.
  struct alignas(kCacheLine) Cell {
    std::atomic<uint64_t> number;
    T item;
  };

  Cell& At(uint64_t n) { return cells_[n & (cells_.size() - 1)]; }
  const Cell& At(uint64_t n) const { return cells_[n & (cells_.size() - 1)]; }
  bool InRing() const { return At(head_).number.load() == head_ + 1; }

  // False if the ring is full, or others have found it full and the owner not yet seen it.
  bool PushToRing(const T& item) {
    if (overflowing_.load(std::memory_order_acquire)) return false;
    uint64_t n = tail_.load(std::memory_order_relaxed);
    while (true) {
      Cell& cell = At(n);
      const uint64_t number = cell.number.load(std::memory_order_acquire);
      if (number < n) return false;
      if (number > n) {
        n = tail_.load(std::memory_order_relaxed);
      } else if (tail_.compare_exchange_weak(n, n + 1, std::memory_order_relaxed)) {
        cell.item = item;
        cell.number.store(n + 1);
        return true;
      }
    }
  }

  void PushToList(const T& item) {
    std::lock_guard<std::mutex> lock(mutex_);
    overflow_.push_back(item);
    overflowing_.store(true);
  }

  // What stands in the list comes after all that its producers had put into the ring, and before
  // what they put there once overflowing_ is false: after item tail_ of this moment.
  void TakeList() {
    listed_.clear();
    next_ = 0;
    std::lock_guard<std::mutex> lock(mutex_);
    listed_.swap(overflow_);
    listed_at_ = tail_.load(std::memory_order_relaxed);
    overflowing_.store(false);
  }

  std::vector<Cell> cells_;
  alignas(kCacheLine) uint64_t head_ = 0;  // the owner's: the next item of the ring
  std::vector<T> listed_;                  // the owner's: taken from the list
  size_t next_ = 0;                        // of listed_: not yet popped
  uint64_t listed_at_ = 0;                 // they come before this item of the ring
  alignas(kCacheLine) std::atomic<uint64_t> tail_{0};
  alignas(kCacheLine) Doorbell bell_;
  std::atomic<bool> woken_{false}, overflowing_{false};
  std::mutex mutex_;
  std::vector<T> overflow_;  // guarded by mutex_
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_BASE_QUEUE_H_
