#include "framework/base/queue.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

namespace sluice {
namespace {

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Sleeps while *word is `value`, until woken or for `timeout`; may return early.
void FutexWait(std::atomic<uint32_t>* word, uint32_t value,
               std::optional<std::chrono::nanoseconds> timeout) {
  timespec wait = {};
  if (timeout.has_value()) {
    wait.tv_sec = timeout->count() / 1'000'000'000;
    wait.tv_nsec = timeout->count() % 1'000'000'000;
  }
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT_PRIVATE, value,
          timeout.has_value() ? &wait : nullptr, nullptr, 0);
}

void FutexWakeOne(std::atomic<uint32_t>* word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace

void Doorbell::Ring() {
  if (state_.exchange(kRung) == kSleeping) FutexWakeOne(&state_);
}

bool Doorbell::Wait(std::chrono::microseconds spin, std::optional<Clock::time_point> deadline) {
  if (state_.load() == kRung) return true;
  const Clock::time_point start = Clock::now();
  if (spin.count() > 0) {
    const Clock::time_point spin_end =
        deadline.has_value() ? std::min(start + spin, *deadline) : start + spin;
    while (Clock::now() < spin_end) {
      for (int i = 0; i < 16; ++i) {
        if (state_.load(std::memory_order_acquire) == kRung) return true;
        Pause();
      }
    }
  }
  uint32_t quiet = kQuiet;
  if (!state_.compare_exchange_strong(quiet, kSleeping)) return true;  // only a ring changes it
  while (state_.load() == kSleeping) {
    std::optional<std::chrono::nanoseconds> timeout;
    if (deadline.has_value()) {
      timeout = *deadline - Clock::now();
      if (timeout->count() <= 0) {
        uint32_t sleeping = kSleeping;
        return !state_.compare_exchange_strong(sleeping, kQuiet);
      }
    }
    FutexWait(&state_, kSleeping, timeout);
  }
  return true;
}

}  // namespace sluice
