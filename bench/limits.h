// What this machine can do, measured in the run that a figure is compared in: matrix products and
// convolutions of f32 and of bf16 by oneDNN, memory by four loops that do nothing else, and rows of
// tables at random places. Bandwidths count the bytes that a loop loads and stores; the lines that
// a cache reads only to overwrite them are not counted. Values are those of a kernel, not zeros.
// Call it from one thread, on an otherwise idle machine.
#ifndef SLUICE_BENCH_LIMITS_H_
#define SLUICE_BENCH_LIMITS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "framework/device/thread_pool.h"
#include "framework/tensor/dtype.h"

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
  // A second: the best of three of ResNet-50's convolutions on 8 pictures.
  double convolution_flops = 0, bf16_convolution_flops = 0;
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

// About two seconds. The pool's threads must have been started with InitKernelThread.
Limits MeasureLimits(ThreadPool* thread_pool);
// Operations a second in f32 or bf16, as Limits has them.
double MeasureMatMul(ThreadPool* thread_pool, DType dtype);
double MeasureConvolution(ThreadPool* thread_pool, DType dtype);

// Rows that a pass over tables looks at: those of `ids` in each of `tables`, `width` elements each.
struct TablePass {
  std::vector<float*> tables;
  int64_t width = 0;
  bool writes = false;  // else rows are only read
  // Of several passes that take turns, so that one does not find the rows of another in a cache.
  std::vector<std::vector<int32_t>> ids;
};
// Seconds of one pass that does nothing else. In the order of the ids, or in ascending order, which
// had to be made first, and with rows asked for so or so far ahead: whichever is fastest.
double MeasureTablePass(ThreadPool* thread_pool, const TablePass& pass);

// Seconds of one call: the lower quartile over calls until `budget` seconds and at least five calls
// have passed; what a noisy neighbour slows is left out, on our side and the limit's alike.
double TimeOf(double budget, const std::function<void()>& call);

}  // namespace sluice

#endif  // SLUICE_BENCH_LIMITS_H_
