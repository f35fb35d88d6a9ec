// The threads of a CPU device: the caller and threads-1 of its own. Between kernels they spin for
// some tens of microseconds, then sleep: with other work on the cores a spinning wait costs whole
// scheduler slices. Run never waits for a thread that has taken no piece.
#ifndef SLUICE_FRAMEWORK_DEVICE_CPU_THREAD_POOL_H_
#define SLUICE_FRAMEWORK_DEVICE_CPU_THREAD_POOL_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "framework/device/thread_pool.h"

namespace sluice {

// Run may be called by one thread at a time, and not from within a piece.
class CpuThreadPool : public ThreadPool {
 public:
  // `init_thread`, if any, is called first thing on every thread of the thread pool's own.
  explicit CpuThreadPool(int threads, void (*init_thread)() = nullptr);
  ~CpuThreadPool() override;
  CpuThreadPool(const CpuThreadPool&) = delete;
  CpuThreadPool& operator=(const CpuThreadPool&) = delete;

  int threads() const override { return static_cast<int>(workers_.size()) + 1; }
  void Run(int64_t count, Function fn, void* state) override;

 private:
  void WorkerLoop();
  void RunRound(int64_t count);
  // Takes and runs pieces of the present round until none is left.
  void TakePieces();

  // One word so that a piece is taken only of the round it belongs to: round number (24 bits), next
  // piece (20), pieces (20). A thread reads fn_ and state_ only while it holds a piece, and the
  // round cannot end before that piece has.
  std::atomic<uint64_t> ticket_{0};
  std::atomic<int32_t> round_{0};  // what sleeping threads wait on
  std::atomic<int32_t> left_{0};   // pieces not ended
  Function fn_ = nullptr;
  void* state_ = nullptr;
  int64_t first_ = 0;  // index of piece 0 of the round
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> workers_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DEVICE_CPU_THREAD_POOL_H_
