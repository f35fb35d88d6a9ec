// What this machine can do, measured in the run that a figure is compared in: matrix products of
// f32 and of bf16 by oneDNN, and memory by four loops that do nothing else. Bandwidths count the
// bytes that a loop loads and stores; the lines that a cache reads only to overwrite them are not
// counted. Values are those of a kernel, not zeros. Call it from one thread, on an otherwise idle
// machine.
#ifndef SLUICE_BENCH_LIMITS_H_
#define SLUICE_BENCH_LIMITS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "framework/device/thread_pool.h"

namespace sluice {

// Bytes a second over a working set of `bytes` in all.
struct Bandwidth {
  int64_t bytes = 0;
  double read = 0;   // one array summed
  double triad = 0;  // c = a + 3 b
  double copy = 0;   // c = a
  double add = 0;    // c += a
};

struct Limits {
  int threads = 1;
  // A second: the better of n = 512 and 1024.
  double matmul_flops = 0, bf16_matmul_flops = 0;
  std::vector<Bandwidth> bandwidth;  // from L2's size to memory's, ascending

  // The curve read at a working set; between two of its points by their logarithms.
  Bandwidth At(int64_t bytes) const;
  // A second for a pass over a working set that loads and stores so many bytes, of which `in_place`
  // are stored where they were loaded from.
  double BytesPerSecond(int64_t working_set, int64_t loaded, int64_t stored,
                        int64_t in_place) const;
  const Bandwidth& Memory() const { return bandwidth.back(); }
  // Working sets, in bytes, that stand for a level of the memory.
  static constexpr int64_t kL2 = 512 << 10, kL3 = 8 << 20, kMemory = 256 << 20;
  std::string ToString() const;
};

// About a second. The thread pool's threads must have been started with InitKernelThread.
Limits MeasureLimits(ThreadPool* thread_pool);

// Seconds of one call: the lower quartile over calls until `budget` seconds and at least five calls
// have passed; what a noisy neighbour slows is left out, on our side and the limit's alike.
double TimeOf(double budget, const std::function<void()>& call);

}  // namespace sluice

#endif  // SLUICE_BENCH_LIMITS_H_
