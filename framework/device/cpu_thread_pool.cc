#include "framework/device/cpu_thread_pool.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "framework/base/log.h"
#include "framework/base/thread.h"

namespace sluice {
namespace {

constexpr int64_t kMaxPieces = (int64_t{1} << 20) - 1;
constexpr auto kSpin = std::chrono::microseconds(40);

uint64_t Ticket(uint32_t round, int64_t next, int64_t pieces) {
  return uint64_t{round & 0xffffff} << 40 | static_cast<uint64_t>(next) << 20 |
         static_cast<uint64_t>(pieces);
}

// Whether done() came true within kSpin.
template <typename Done>
bool Spin(Done&& done) {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 64; ++i) {
      if (done()) return true;
      __builtin_ia32_pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace

CpuThreadPool::CpuThreadPool(int threads, void (*init_thread)()) {
  const auto run = [this, init_thread] {
    if (init_thread != nullptr) init_thread();
    WorkerLoop();
  };
  for (int t = 1; t < threads; ++t) {
    std::thread thread;
    const absl::Status started = StartThread(run, &thread);
    if (!started.ok()) {  // results do not depend on how many there are
      SLUICE_LOG(WARNING) << "kernels run on " << t << " threads, not " << threads << ": "
                          << started.message();
      return;
    }
    workers_.push_back(std::move(thread));
  }
}

CpuThreadPool::~CpuThreadPool() {
  stopping_.store(true, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void CpuThreadPool::WorkerLoop() {
  int32_t seen = 0;
  while (true) {
    const auto changed = [&] { return round_.load(std::memory_order_acquire) != seen; };
    if (!Spin(changed)) round_.wait(seen, std::memory_order_acquire);
    seen = round_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_relaxed)) return;
    TakePieces();
  }
}

void CpuThreadPool::TakePieces() {
  uint64_t ticket = ticket_.load(std::memory_order_acquire);
  while (true) {
    const int64_t pieces = static_cast<int64_t>(ticket & kMaxPieces);
    const int64_t next = static_cast<int64_t>(ticket >> 20 & kMaxPieces);
    if (next >= pieces) return;
    if (!ticket_.compare_exchange_weak(ticket, ticket + (uint64_t{1} << 20),
                                       std::memory_order_acq_rel, std::memory_order_acquire)) {
      continue;
    }
    fn_(state_, first_ + next);
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) left_.notify_one();
    ticket = ticket_.load(std::memory_order_acquire);
  }
}

void CpuThreadPool::RunRound(int64_t count) {
  left_.store(static_cast<int32_t>(count), std::memory_order_relaxed);
  const int32_t round = round_.load(std::memory_order_relaxed) + 1;
  ticket_.store(Ticket(static_cast<uint32_t>(round), 0, count), std::memory_order_release);
  round_.store(round, std::memory_order_release);
  round_.notify_all();
  TakePieces();
  const auto ended = [&] { return left_.load(std::memory_order_acquire) == 0; };
  if (Spin(ended)) return;
  for (int32_t left; (left = left_.load(std::memory_order_acquire)) != 0;) {
    left_.wait(left, std::memory_order_acquire);
  }
}

void CpuThreadPool::Run(int64_t count, Function fn, void* state) {
  if (workers_.empty() || count <= 1) {
    for (int64_t i = 0; i < count; ++i) fn(state, i);
    return;
  }
  fn_ = fn;
  state_ = state;
  for (first_ = 0; first_ < count; first_ += kMaxPieces) {
    RunRound(std::min(count - first_, kMaxPieces));
  }
}

}  // namespace sluice
