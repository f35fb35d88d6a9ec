#include "bench/limits.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/quantiles.h"
#include "bench/stream_loops.h"
#include "framework/base/log.h"
#include "framework/device/memory.h"
#include "framework/kernels/cpu/convolution.h"
#include "framework/kernels/cpu/library_call.h"
#include "framework/kernels/cpu/product.h"
#include "framework/kernels/cpu/vector.h"
#include "framework/tensor/array.h"

namespace sluice {
namespace {

constexpr double kBudget = 0.02;  // seconds a point

// Memory of so many bytes, of values as kernels have them.
Memory FilledMemory(int64_t bytes, DType dtype) {
  auto memory = Memory::Allocate(bytes);
  SLUICE_CHECK(memory.ok()) << memory.status().ToString();
  for (int64_t i = 0; i < bytes / SizeOf(dtype); ++i) {
    StoreElement(dtype, memory->data(), i, static_cast<double>(i * 7919 % 1000) * 1e-3);
  }
  return *std::move(memory);
}

// Bytes a second of loop(first, n), run over `elements` cut among the threads. Small working sets
// are walked often, so that starting the threads does not count.
template <typename Loop>
double Speed(ThreadPool* thread_pool, int64_t elements, int arrays_moved, Loop&& loop) {
  const int64_t rounds = std::max<int64_t>(1, (int64_t{4} << 20) / elements);
  const double seconds = TimeOf(kBudget, [&] {
    thread_pool->ForEach(thread_pool->threads(), [&](int64_t t) {
      const int64_t groups = elements / 64, begin = groups * t / thread_pool->threads();
      const int64_t end = groups * (t + 1) / thread_pool->threads();
      for (int64_t i = 0; i < rounds; ++i) loop(begin * 64, (end - begin) * 64);
    });
  });
  return static_cast<double>(rounds * elements * arrays_moved * 4) / seconds;
}

Bandwidth BandwidthAt(ThreadPool* thread_pool, const StreamLoops& loops, float* memory,
                      int64_t bytes) {
  Bandwidth made;
  made.bytes = bytes;
  // No zeros: there are processors that store lines of nothing else faster than any kernel's.
  for (int64_t i = 0; i < bytes / 4; ++i) memory[i] = 1 + static_cast<float>(i % 1024);
  float sink = 0;
  const int64_t one = bytes / 4 / 64 * 64, half = bytes / 8 / 64 * 64, third = bytes / 12 / 64 * 64;
  made.read = Speed(thread_pool, one, 1, [&](int64_t at, int64_t n) {
    if (loops.read(memory + at, n) < 0) sink = 1;
  });
  SLUICE_CHECK_EQ(sink, 0) << "a negative sum of positive values";
  float *a = memory, *c = memory + half;
  const auto copy = [&](auto loop) {
    return Speed(thread_pool, half, 2, [&](int64_t at, int64_t n) { loop(a + at, c + at, n); });
  };
  made.copy = std::max(copy(loops.copy), copy(loops.copy_streaming));
  made.add =
      Speed(thread_pool, half, 3, [&](int64_t at, int64_t n) { loops.add(a + at, c + at, n); });
  float *b = memory + third, *d = memory + 2 * third;
  const auto triad = [&](auto loop) {
    return Speed(thread_pool, third, 3,
                 [&](int64_t at, int64_t n) { loop(a + at, b + at, d + at, n); });
  };
  made.triad = std::max(triad(loops.triad), triad(loops.triad_streaming));
  return made;
}

double Between(double low, double high, double share) {
  return std::exp(std::log(low) * (1 - share) + std::log(high) * share);
}

// ResNet-50's convolutions of 3x3 in its second, third and fourth stage.
ConvolutionShape ConvolutionOf(int64_t size, int64_t channels, DType dtype) {
  return {.images = 8,
          .height = size,
          .width = size,
          .channels = channels,
          .out_height = size,
          .out_width = size,
          .out_channels = channels,
          .kernel_height = 3,
          .kernel_width = 3,
          .padding = {1, 1, 1, 1},
          .operands = dtype};
}

// A cache line of elements, at any of which it may begin.
constexpr int64_t kLine = 16;
using Line [[gnu::vector_size(64), gnu::aligned(4), gnu::may_alias]] = float;

// Rows `ahead` ids ahead are asked for while one is looked at. Nothing here may take longer than
// memory does: elements change sixteen at a time, those read are joined by what takes one cycle,
// and widths that tables have are constants.
template <typename Width>
void LookAtRows(const TablePass& pass, Width width, const int32_t* ids, int64_t n, int64_t ahead,
                uint32_t* sink) {
  float* const* const tables = pass.tables.data();
  const int64_t count = static_cast<int64_t>(pass.tables.size());
  const bool writes = pass.writes;
  uint32_t joined = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t next = ids[std::min(i + ahead, n - 1)] * width;
    for (int64_t t = 0; t < count; ++t) {
      __builtin_prefetch(tables[t] + next);
      float* const row = tables[t] + ids[i] * width;
      int64_t e = 0;
      if (!writes) {
        for (; e < width; e += kLine) joined ^= std::bit_cast<uint32_t>(row[e]);  // any of a line
        continue;
      }
      for (; e + kLine <= width; e += kLine) {
        Line& line = *reinterpret_cast<Line*>(row + e);
        line = line * 0.5f + 0.25f;
      }
      for (; e < width; ++e) row[e] = row[e] * 0.5f + 0.25f;
    }
  }
  *sink = joined;
}

void LookAtRows(const TablePass& pass, const int32_t* ids, int64_t n, int64_t ahead,
                uint32_t* sink) {
  const auto look = [&](auto width) { LookAtRows(pass, width, ids, n, ahead, sink); };
  if (pass.width == 1) return look(std::integral_constant<int64_t, 1>());
  if (pass.width == 16) return look(std::integral_constant<int64_t, 16>());
  look(pass.width);
}

double SecondsOfPass(ThreadPool* thread_pool, const TablePass& pass, int64_t ahead) {
  std::vector<uint32_t> sinks(thread_pool->threads() * 16);
  size_t turn = 0;
  return TimeOf(0.1, [&] {
    const std::vector<int32_t>& ids = pass.ids[turn++ % pass.ids.size()];
    const int64_t n = static_cast<int64_t>(ids.size()), threads = thread_pool->threads();
    thread_pool->ForEach(threads, [&](int64_t t) {
      const int64_t begin = n * t / threads, end = n * (t + 1) / threads;
      LookAtRows(pass, ids.data() + begin, end - begin, ahead, &sinks[t * 16]);
    });
  });
}

}  // namespace

// The better of two sizes: on one processor or another either is the faster one.
double MeasureMatMul(ThreadPool* thread_pool, DType dtype) {
  const Memory memory = FilledMemory(int64_t{3 << 20} * SizeOf(dtype), dtype);
  std::byte* const at = memory.data();
  double best = 0;
  for (int64_t n : {512, 1024}) {
    const int64_t bytes = n * n * SizeOf(dtype);
    auto product = cpu::Product::Prepare(
        {.m = n, .n = n, .k = n, .operands = dtype, .result = dtype}, thread_pool->threads());
    SLUICE_CHECK(product.ok()) << product.status().ToString();
    const Memory scratch = FilledMemory(std::max<int64_t>(64, (*product)->scratch()), dtype);
    CpuStream stream(thread_pool);
    const KernelContext firing = {.stream = &stream};
    const double seconds = TimeOf(
        0.2, [&] { (*product)->Run(firing, at, at + bytes, at + 2 * bytes, scratch.data()); });
    best = std::max(best, 2.0 * static_cast<double>(n * n * n) / seconds);
  }
  return best;
}

double MeasureConvolution(ThreadPool* thread_pool, DType dtype) {
  double best = 0;
  for (const auto& [size, channels] : {std::pair<int64_t, int64_t>{28, 128}, {14, 256}, {7, 512}}) {
    const ConvolutionShape shape = ConvolutionOf(size, channels, dtype);
    auto convolution =
        cpu::Convolution::Prepare(ConvolutionPass::kForward, shape, thread_pool->threads());
    SLUICE_CHECK(convolution.ok()) << convolution.status().ToString();
    const int64_t pixels = shape.images * shape.Pixels() * channels * SizeOf(dtype);
    const int64_t weights = shape.WeightElements() * SizeOf(dtype);
    const Memory memory = FilledMemory(2 * pixels + weights, dtype);
    const Memory scratch = FilledMemory(std::max<int64_t>(64, (*convolution)->scratch()), dtype);
    CpuStream stream(thread_pool);
    const KernelContext firing = {.stream = &stream};
    const cpu::ConvolutionOperands operands = {memory.data(), memory.data() + 2 * pixels,
                                               memory.data() + pixels};
    const double seconds =
        TimeOf(0.1, [&] { (*convolution)->Run(firing, operands, scratch.data()); });
    best = std::max(best, 2.0 * static_cast<double>(shape.Products()) / seconds);
  }
  return best;
}

double MeasureTablePass(ThreadPool* thread_pool, const TablePass& pass) {
  TablePass ascending = pass;
  for (std::vector<int32_t>& ids : ascending.ids) std::sort(ids.begin(), ids.end());
  double best = std::numeric_limits<double>::infinity();
  for (const int64_t ahead : {16, 32, 64}) {
    best = std::min(best, SecondsOfPass(thread_pool, pass, ahead));
    best = std::min(best, SecondsOfPass(thread_pool, ascending, ahead));
  }
  return best;
}

double TimeOf(double budget, const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  call();
  std::vector<double> seconds;
  const auto begin = Clock::now();
  for (auto before = begin;
       seconds.size() < 5 || std::chrono::duration<double>(before - begin).count() < budget;) {
    call();
    const auto after = Clock::now();
    seconds.push_back(std::chrono::duration<double>(after - before).count());
    before = after;
  }
  return LowerQuartile(std::move(seconds));
}

Limits MeasureLimits(ThreadPool* thread_pool) {
  InitKernelThread();
  const StreamLoops& loops = cpu::Runs(cpu::Isa::kV4) ? v4::kStreamLoops : v3::kStreamLoops;
  auto memory = Memory::Allocate(Limits::kMemory);
  SLUICE_CHECK(memory.ok()) << memory.status().ToString();
  float* data = reinterpret_cast<float*>(memory->data());
  Limits limits;
  limits.threads = thread_pool->threads();
  for (int64_t bytes : {Limits::kL2, int64_t{2} << 20, Limits::kL3, int64_t{32} << 20,
                        int64_t{96} << 20, Limits::kMemory}) {
    limits.bandwidth.push_back(BandwidthAt(thread_pool, loops, data, bytes));
  }
  limits.matmul_flops = MeasureMatMul(thread_pool, DType::kF32);
  limits.bf16_matmul_flops = MeasureMatMul(thread_pool, DType::kBF16);
  limits.convolution_flops = MeasureConvolution(thread_pool, DType::kF32);
  limits.bf16_convolution_flops = MeasureConvolution(thread_pool, DType::kBF16);
  return limits;
}

Bandwidth Limits::At(int64_t bytes) const {
  if (bytes <= bandwidth.front().bytes) return bandwidth.front();
  for (size_t i = 1; i < bandwidth.size(); ++i) {
    const Bandwidth &low = bandwidth[i - 1], &high = bandwidth[i];
    if (bytes > high.bytes) continue;
    const double share = std::log(static_cast<double>(bytes) / static_cast<double>(low.bytes)) /
                         std::log(static_cast<double>(high.bytes) / static_cast<double>(low.bytes));
    return {bytes, Between(low.read, high.read, share), Between(low.triad, high.triad, share),
            Between(low.copy, high.copy, share), Between(low.add, high.add, share)};
  }
  return bandwidth.back();
}

double Limits::BytesPerSecond(int64_t working_set, int64_t loaded, int64_t stored,
                              int64_t in_place) const {
  const Bandwidth at = At(working_set);
  const double share = static_cast<double>(stored) / static_cast<double>(loaded + stored);
  if (share < 1.0 / 3) return at.read + (std::max(at.triad, at.add) - at.read) * share * 3;
  const double half = in_place * 2 > stored ? at.add : at.copy;
  const double third = in_place * 2 > stored ? at.add : at.triad;
  return third + (half - third) * std::min(1.0, (share - 1.0 / 3) * 6);
}

std::string Limits::ToString() const {
  std::string text = absl::StrFormat(
      "limits, %d thread%s: matmul %.0f GFLOP/s, bf16 %.0f; "
      "convolution %.0f, bf16 %.0f\n",
      threads, threads == 1 ? "" : "s", matmul_flops * 1e-9, bf16_matmul_flops * 1e-9,
      convolution_flops * 1e-9, bf16_convolution_flops * 1e-9);
  absl::StrAppend(&text, "  working set    read   triad    copy    a+=b  (GB/s)\n");
  for (const Bandwidth& b : bandwidth) {
    absl::StrAppendFormat(&text, "  %8.1f MiB %7.1f %7.1f %7.1f %7.1f\n",
                          static_cast<double>(b.bytes) / (1 << 20), b.read * 1e-9, b.triad * 1e-9,
                          b.copy * 1e-9, b.add * 1e-9);
  }
  return text;
}

}  // namespace sluice
