#include "framework/base/queue.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace sluice {

void Doorbell::WakeUp() {
  if (state_.exchange(kAwake) != kSleeping) return;
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&state_), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr,
          0);
}

bool Doorbell::Sleep(std::optional<Clock::time_point> deadline) {
  timespec wait = {};
  if (deadline.has_value()) {
    const auto left = std::chrono::nanoseconds(*deadline - Clock::now()).count();
    if (left <= 0) return false;
    wait.tv_sec = left / 1'000'000'000;
    wait.tv_nsec = left % 1'000'000'000;
  }
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&state_), FUTEX_WAIT_PRIVATE, kSleeping,
          deadline.has_value() ? &wait : nullptr, nullptr, 0);
  return true;
}

}  // namespace sluice
