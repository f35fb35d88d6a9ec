#include "framework/base/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "framework/base/thread.h"

namespace sluice {

absl::Status ParallelFor(size_t count, int threads, const std::function<absl::Status(size_t)>& fn) {
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  size_t first = count;  // guarded by mutex, as is `error`
  absl::Status error;
  const auto work = [&] {
    for (size_t i = next++; i < count && !failed; i = next++) {
      const absl::Status status = fn(i);
      if (status.ok()) continue;
      failed = true;
      const std::lock_guard<std::mutex> lock(mutex);
      if (i >= first) continue;
      first = i;
      error = status;
    }
  };
  std::vector<std::thread> started;
  const size_t wanted = std::min(count, static_cast<size_t>(std::max(threads, 1)));
  for (size_t t = 1; t < wanted; ++t) {
    std::thread thread;
    if (!StartThread(work, &thread).ok()) break;  // the others do what it would have done
    started.push_back(std::move(thread));
  }
  work();
  for (std::thread& thread : started) thread.join();
  return error;
}

}  // namespace sluice
