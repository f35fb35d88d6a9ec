// Independent cases of a test on all cores.
#ifndef SLUICE_FRAMEWORK_TESTING_PARALLEL_H_
#define SLUICE_FRAMEWORK_TESTING_PARALLEL_H_

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "framework/base/cores.h"

namespace sluice {

// Calls fn(i) once for each i in [0, count), from any thread; returns when all have ended.
inline void ParallelFor(int count, const std::function<void(int)>& fn) {
  std::atomic<int> next{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < static_cast<unsigned>(UsableCores()); ++t) {
    threads.emplace_back([&] {
      for (int i = next++; i < count; i = next++) fn(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_PARALLEL_H_
