// The kernels of a step, each alone: how long it takes on operands of its own, beside the limit
// that binds it. One thread calls; a kernel runs on as many as the timer has.
#ifndef SLUICE_BENCH_OP_TIMING_H_
#define SLUICE_BENCH_OP_TIMING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/limits.h"
#include "bench/op_operands.h"
#include "framework/device/cpu_thread_pool.h"
#include "framework/device/memory.h"
#include "framework/kernels/kernel.h"

namespace sluice {

// What a kernel does in one run, how long it takes, and what it would take at each limit.
struct OpTime {
  std::string name;  // the op and the shapes of its operands
  int64_t count = 0;
  double seconds = 0, flops = 0, bytes = 0;
  double working_set = 0;                         // bytes that differ
  double arithmetic_limit = 0, memory_limit = 0;  // seconds
  bool of_convolutions = false;                   // arithmetic_limit; else of products
  bool of_tables = false;                         // memory_limit: of rows at random places

  double Limit() const { return std::max(arithmetic_limit, memory_limit); }
  const char* Binds() const {
    if (arithmetic_limit > memory_limit) return of_convolutions ? "convolution" : "matmul";
    return of_tables ? "rows of tables" : "memory";
  }
};

class OpTimer {
 public:
  // For the largest of these instructions. Measures the limits.
  static absl::StatusOr<OpTimer> Create(int threads,
                                        const std::vector<DistinctInstruction>& instructions);

  const Limits& limits() const { return limits_; }
  // Runs it for `budget` seconds. Pictures, ids and labels are drawn; rows of tables are found at
  // other places in each run, as in a step.
  absl::StatusOr<OpTime> Measure(const DistinctInstruction& one, double budget);

 private:
  std::vector<std::byte*> Place(const DistinctInstruction& one, const KernelSpec& spec);
  OpTime Describe(const DistinctInstruction& one, const KernelSpec& spec) const;

  std::unique_ptr<CpuThreadPool> thread_pool_;
  Limits limits_;
  Memory memory_;
};

}  // namespace sluice

#endif  // SLUICE_BENCH_OP_TIMING_H_
