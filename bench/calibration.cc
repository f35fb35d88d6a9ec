#include "bench/calibration.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/message_times.h"
#include "bench/quantiles.h"
#include "framework/base/cores.h"
#include "framework/base/status.h"
#include "framework/kernels/cpu/library_call.h"
#include "framework/runtime/trace.h"

namespace sluice {
namespace {

constexpr int64_t kUnknownCache = 1 << 20;  // of a core, where the system does not say
constexpr int64_t kAlignment = 64, kMostSets = 512;
constexpr int64_t kShort = 4'000;           // nanoseconds below which several runs are timed as one
constexpr int64_t kLong = 30'000'000;       // after which three runs are enough
constexpr size_t kFewest = 3, kEnough = 7;  // runs

int64_t Aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Floats of about 1: no kernel is slow on them, and variances are positive.
const std::vector<float>& Pattern() {
  static const auto* pattern = [] {
    auto* values = new std::vector<float>(1 << 14);
    uint32_t state = 1;
    for (float& value : *values) {
      state = state * 1664525 + 1013904223;
      value = 0.5f + static_cast<float>(state >> 8) / (1 << 24);
    }
    return values;
  }();
  return *pattern;
}

// The operands of a kernel, several times over, so that a run does not find its own in the cache.
class OperandSets {
 public:
  OperandSets(const KernelSample& sample, int64_t pool_bytes, Memory* pool)
      : sample_(sample), pool_(*pool) {
    for (const Shard& shard : sample.spec.inputs) bytes_ += Aligned(shard.NumBytes());
    for (const Shard& shard : sample.spec.outputs) bytes_ += Aligned(shard.NumBytes());
    sets_ = std::clamp<int64_t>(pool_bytes / std::max<int64_t>(bytes_, 1), 2, kMostSets);
  }

  absl::Status Fill() {
    if (pool_.bytes() < sets_ * bytes_) {
      pool_ = Memory();
      ASSIGN_OR_RETURN(pool_, Memory::Allocate(sets_ * bytes_));
    }
    std::byte* at = pool_.data();
    for (int64_t set = 0; set < sets_; ++set) {
      for (const auto* shards : {&sample_.spec.inputs, &sample_.spec.outputs}) {
        for (const Shard& shard : *shards) {
          FillShard(shard, at);
          operands_.push_back(at);
          at += Aligned(shard.NumBytes());
        }
      }
    }
    return absl::OkStatus();
  }

  std::byte* const* Next() {
    next_ = next_ + 1 < sets_ ? next_ + 1 : 0;
    return operands_.data() + next_ * (sample_.spec.inputs.size() + sample_.spec.outputs.size());
  }

 private:
  void FillShard(const Shard& shard, std::byte* at) {
    if (shard.dtype == DType::kI32) {
      for (int64_t i = 0; i < shard.NumElements(); ++i) {
        state_ = state_ * 1664525 + 1013904223;
        reinterpret_cast<int32_t*>(at)[i] = static_cast<int32_t>((state_ >> 8) % sample_.ids);
      }
      return;
    }
    const int64_t block = static_cast<int64_t>(Pattern().size() * sizeof(float));
    for (int64_t begin = 0; begin < shard.NumBytes(); begin += block) {
      std::memcpy(at + begin, Pattern().data(), std::min(block, shard.NumBytes() - begin));
    }
  }

  const KernelSample& sample_;
  Memory& pool_;
  int64_t bytes_ = 0, sets_ = 0, next_ = 0;
  uint32_t state_ = 1;
  std::vector<std::byte*> operands_;
};

// One device that runs a kernel again and again.
class Lane {
 public:
  // `thread_pool`, if any, runs the kernel; else the calling thread alone.
  Lane(KernelSample sample, CpuThreadPool* thread_pool, int64_t pool_bytes, Memory* pool)
      : stream_(thread_pool != nullptr ? static_cast<ThreadPool*>(thread_pool) : &alone_),
        sample_(std::move(sample)),
        sets_(sample_, pool_bytes, pool) {
    firing_.stream = &stream_;
    sample_.spec.threads = stream_.thread_pool()->threads();
  }

  absl::Status Prepare() {
    InitKernelThread();
    ASSIGN_OR_RETURN(kernel_, PrepareCpuKernel(sample_.spec));
    scratch_.resize(kernel_->scratch() + kAlignment);
    scratch_at_ =
        scratch_.data() + kAlignment - reinterpret_cast<uintptr_t>(scratch_.data()) % kAlignment;
    RETURN_IF_ERROR(sets_.Fill());
    return Run();  // whatever a library does at first
  }

  // Times runs until there are enough of them, and so many nanoseconds have passed.
  absl::Status Measure(int64_t nanoseconds) {
    int64_t begin = NowNanoseconds();
    const int64_t started = begin;
    int64_t batch = 1;
    while (true) {
      for (int64_t i = 0; i < batch; ++i) RETURN_IF_ERROR(Run());
      const int64_t end = NowNanoseconds(), spent = end - started;
      if (batch < 1024 && end - begin < kShort) {
        batch *= 4;  // and forget this one
      } else {
        runs_.push_back(static_cast<double>(end - begin) / static_cast<double>(batch));
      }
      begin = end;
      if (runs_.size() >= kFewest && spent > kLong) break;
      if (runs_.size() >= kEnough && spent > nanoseconds) break;
    }
    return absl::OkStatus();
  }

  absl::Status Run() { return kernel_->Launch(firing_, sets_.Next(), scratch_at_); }
  double time() const { return Median(runs_); }

 private:
  SingleThreadPool alone_;
  CpuStream stream_;
  KernelSample sample_;
  OperandSets sets_;
  std::unique_ptr<Kernel> kernel_;
  KernelContext firing_;
  std::vector<std::byte> scratch_;
  std::byte* scratch_at_ = nullptr;
  std::vector<double> runs_;
};

int Cores(const CalibrationOptions& options) {
  return options.cores > 0 ? options.cores : UsableCores();
}

// `amount` a second, of which the kernel does so much in its time at a point.
double RateAt(const KernelTimes& times, const std::vector<int64_t>& at, double amount) {
  return amount / static_cast<double>(times.At(at)) * 1e9;
}

// What the compiler falls back on where it has no times: of one device beside others.
void SetRates(Machine* machine) {
  for (const KernelTimes& times : machine->kernels) {
    if (times.threads != 1 || !times.cold) continue;
    if (times.kernel == "matmul") {
      machine->flops_per_second = RateAt(times, {512, 512, 512}, 2.0 * 512 * 512 * 512);
      machine->bf16_flops_per_second = machine->flops_per_second;  // its kernels are not there
    }
    if (times.kernel == "add") {
      const int64_t bytes = times.sizes[0].back();
      machine->memory_bytes_per_second = RateAt(times, {bytes}, static_cast<double>(bytes));
    }
    if (times.kernel == "fold") {
      const int64_t moved = times.sizes[0].back();
      machine->link(LinkKind::kProcess).bytes_per_second =
          RateAt(times, {moved, times.sizes[1].back()}, static_cast<double>(moved) / 2);
    }
  }
}

}  // namespace

KernelTimer::KernelTimer(const CalibrationOptions& options)
    : options_(options),
      cores_(Cores(options)),
      pools_(cores_),
      thread_pool_(std::make_unique<CpuThreadPool>(cores_, InitKernelThread)) {
  InitKernelThread();
}

// Lanes measure at one time; one that is done goes on until all are, to keep its core busy.
absl::StatusOr<double> KernelTimer::TimeSample(const KernelSample& sample, int threads,
                                               int64_t pool_bytes) {
  if (threads > 1) {
    Lane lane(sample, thread_pool_.get(), pool_bytes, &pools_[0]);
    RETURN_IF_ERROR(lane.Prepare());
    RETURN_IF_ERROR(lane.Measure(options_.sample_nanoseconds));
    return lane.time();
  }
  const int lanes = cores_;
  std::atomic<int> prepared{0}, measured{0};
  std::vector<absl::Status> statuses(lanes);
  std::vector<double> times(lanes);
  std::vector<std::thread> running;
  for (int l = 0; l < lanes; ++l) {
    running.emplace_back([&, l] {
      Lane lane(sample, nullptr, pool_bytes, &pools_[l]);
      statuses[l] = lane.Prepare();
      ++prepared;
      while (prepared.load() < lanes) std::this_thread::yield();
      if (statuses[l].ok()) statuses[l] = lane.Measure(options_.sample_nanoseconds);
      ++measured;
      while (statuses[l].ok() && measured.load() < lanes) statuses[l] = lane.Run();
      if (statuses[l].ok()) times[l] = lane.time();
    });
  }
  for (std::thread& thread : running) thread.join();
  double sum = 0;
  for (int l = 0; l < lanes; ++l) {
    RETURN_IF_ERROR(statuses[l]);
    sum += times[l];
  }
  return sum / lanes;
}

absl::StatusOr<KernelTimes> KernelTimer::Time(const KernelGrid& grid, int threads, bool cold) {
  KernelTimes times;
  times.kernel = grid.kernel;
  times.threads = threads;
  times.cold = cold;
  times.sizes.resize(grid.axes.size());
  for (size_t d = 0; d < grid.axes.size(); ++d) {
    std::vector<int64_t> at;
    for (const std::vector<int64_t>& axis : grid.axes) at.push_back(axis[0]);
    for (int64_t size : grid.axes[d]) {
      at[d] = size;
      ASSIGN_OR_RETURN(const KernelSample sample, grid.sample(at));
      times.sizes[d].push_back(sample.sizes[d]);
    }
  }
  const int64_t pool = cold ? options_.cold_bytes : options_.hot_bytes;
  for (const std::vector<int64_t>& point : PointsOf(grid.axes)) {
    ASSIGN_OR_RETURN(const KernelSample sample, grid.sample(point));
    const absl::StatusOr<double> time = TimeSample(sample, threads, pool);
    if (!time.ok()) return AddContext(time.status(), grid.kernel);
    times.nanoseconds.push_back(std::max<int64_t>(1, std::llround(*time)));
  }
  return times;
}

KernelTimes Merge(const KernelGrid& grid, absl::Span<const KernelTimes> passes) {
  KernelTimes times = passes[0];
  std::vector<int64_t>& at = times.nanoseconds;
  for (const KernelTimes& pass : passes) {
    for (size_t i = 0; i < at.size(); ++i) at[i] = std::min(at[i], pass.nanoseconds[i]);
  }
  int64_t stride = 1;
  for (size_t d = times.sizes.size(); d-- > 0;) {
    const int64_t points = static_cast<int64_t>(times.sizes[d].size());
    for (size_t i = 0; i < at.size() && static_cast<int>(d) != grid.may_fall; ++i) {
      if (static_cast<int64_t>(i) / stride % points == 0) continue;
      at[i] = std::max(at[i], at[i - stride]);
    }
    stride *= points;
  }
  return times;
}

absl::StatusOr<Machine> Calibrate(const CalibrationOptions& options,
                                  const std::function<void(const std::string&)>& progress) {
  Machine machine = Machine::Cpu();
  machine.cores = Cores(options);
  std::vector<int> thread_pools = {1};
  if (machine.cores > 1) thread_pools.push_back(static_cast<int>(machine.cores));
  KernelTimer timer(options);
  std::vector<std::vector<KernelTimes>> passes;  // by kernel
  for (int pass = 0; pass < options.passes; ++pass) {
    size_t next = 0;
    for (const KernelGrid& grid : options.grids) {
      if (progress) progress(grid.kernel);
      for (int threads : thread_pools) {
        for (bool cold : {false, true}) {
          ASSIGN_OR_RETURN(KernelTimes times, timer.Time(grid, threads, cold));
          if (pass == 0) passes.emplace_back();
          passes[next++].push_back(std::move(times));
        }
      }
    }
  }
  for (size_t i = 0; i < passes.size(); ++i) {
    machine.kernels.push_back(Merge(options.grids[i / (2 * thread_pools.size())], passes[i]));
  }
  SetRates(&machine);
  const int64_t cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
  machine.cache_bytes = cache > 0 ? cache : kUnknownCache;
  if (progress) progress("messages");
  ASSIGN_OR_RETURN(const MessageTimes messages, MeasureMessages());
  machine.launch_nanoseconds = messages.launch;
  machine.link(LinkKind::kProcess).latency_nanoseconds = messages.awake;
  machine.wake_nanoseconds = std::max<int64_t>(0, messages.asleep - messages.awake);
  return machine;
}

}  // namespace sluice
