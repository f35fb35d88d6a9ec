#include "framework/base/queue.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace sluice {

void Doorbell::WakeUp() {
  if (state_.exchange(kAwake) != kSleeping) return;
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&state_), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr,
          0);
}

// A word that has another value than is expected is told at once where the call is known.
bool Doorbell::HearsOthers() {
  static const bool hears = [] {
    uint32_t word = 1;
    futex_waitv waiter = {};
    waiter.uaddr = reinterpret_cast<uintptr_t>(&word);
    waiter.flags = FUTEX_32 | FUTEX_PRIVATE_FLAG;
    return syscall(SYS_futex_waitv, &waiter, 1, 0, nullptr, CLOCK_MONOTONIC) < 0 && errno == EAGAIN;
  }();
  return hears;
}

bool Doorbell::Sleep(std::optional<Clock::time_point> deadline,
                     absl::Span<const OtherBells::Word> words) {
  const auto left = deadline.has_value() ? *deadline - Clock::now() : Clock::duration::zero();
  if (deadline.has_value() && left.count() <= 0) return false;
  const auto timespec_of = [](Clock::duration time) {
    const auto count = std::chrono::nanoseconds(time).count();
    return timespec{count / 1'000'000'000, count % 1'000'000'000};
  };
  if (words.empty()) {
    const timespec wait = timespec_of(left);
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&state_), FUTEX_WAIT_PRIVATE, kSleeping,
            deadline.has_value() ? &wait : nullptr, nullptr, 0);
    return true;
  }
  std::array<futex_waitv, OtherBells::kMostWords + 1> waiters;  // those that are used are set
  uint32_t count = 0;
  const auto add = [&](const void* word, uint32_t value, uint32_t flags) {
    waiters[count++] = {value, reinterpret_cast<uintptr_t>(word), FUTEX_32 | flags, 0};
  };
  add(&state_, kSleeping, FUTEX_PRIVATE_FLAG);
  for (const OtherBells::Word& word : words) add(word.word, word.value, 0);  // of any process
  // The steady clock is the monotonic one, and a deadline is a time of it.
  timespec until = {};
  if (deadline.has_value()) until = timespec_of(deadline->time_since_epoch());
  syscall(SYS_futex_waitv, waiters.data(), count, 0, deadline.has_value() ? &until : nullptr,
          CLOCK_MONOTONIC);
  return true;
}

}  // namespace sluice
