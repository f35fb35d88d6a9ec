// What it costs to seal and to open a record, on one core, beside a copy of as many bytes. By
// turns:
//   --benchmark_enable_random_interleaving --benchmark_repetitions=9
#include <cstring>
#include <vector>

#include "benchmark/benchmark.h"
#include "framework/base/log.h"
#include "framework/wire/seal.h"

namespace sluice {
namespace {

constexpr SealKey kKey = {std::byte{1}, std::byte{2}, std::byte{3}};

void Copy(benchmark::State& state) {
  const auto size = static_cast<size_t>(state.range(0));
  std::vector<std::byte> from(size, std::byte{1}), to(size);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), size);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void Seal(benchmark::State& state) {
  const auto size = static_cast<size_t>(state.range(0));
  const std::vector<std::byte> from(size, std::byte{1});
  std::vector<std::byte> to(size + kRecordExtraBytes);
  const absl::Span<const std::byte> part = from;
  Sealer sealer(kKey);
  for (auto _ : state) SLUICE_CHECK_OK(sealer.Seal({&part, 1}, size, to.data()));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

// A record opens once, so each is sealed first; that is not in the time.
void Open(benchmark::State& state) {
  const auto size = static_cast<size_t>(state.range(0));
  const size_t whole = size + kRecordExtraBytes;
  const std::vector<std::byte> from(size, std::byte{1});
  const absl::Span<const std::byte> part = from;
  constexpr size_t kRecords = 64;
  std::vector<std::byte> records(kRecords * whole), to(size);
  Sealer sealer(kKey);
  Opener opener(kKey);
  size_t left = 0;
  for (auto _ : state) {
    if (left == 0) {
      state.PauseTiming();
      for (; left < kRecords; ++left) {
        SLUICE_CHECK_OK(sealer.Seal({&part, 1}, size, records.data() + left * whole));
      }
      state.ResumeTiming();
    }
    const std::byte* const record = records.data() + (kRecords - left--) * whole;
    SLUICE_CHECK_OK(opener.Open({record, whole}, to.data()));
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

// A token, the least record that was tried, and the largest that there is.
#define SLUICE_SIZES Arg(64)->Arg(16 << 10)->Arg(kMostRecordBytes)
BENCHMARK(Copy)->SLUICE_SIZES;
BENCHMARK(Seal)->SLUICE_SIZES;
BENCHMARK(Open)->SLUICE_SIZES;

}  // namespace
}  // namespace sluice
