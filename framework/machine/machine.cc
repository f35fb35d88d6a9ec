#include "framework/machine/machine.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "framework/base/status.h"

namespace sluice {
namespace {

constexpr absl::string_view kKernel = "kernel.";

// The one list of fields, in the order of the text form.
template <typename M, typename Count, typename Rate>
void ForEachField(M& machine, Count count, Rate rate) {
  count("devices_per_rank", machine.devices_per_rank, 1);
  count("devices_per_node", machine.devices_per_node, 1);
  rate("flops_per_second", machine.flops_per_second);
  rate("bf16_flops_per_second", machine.bf16_flops_per_second);
  rate("memory_bytes_per_second", machine.memory_bytes_per_second);
  rate("inner_bytes_per_second", machine.inner_bytes_per_second);
  rate("outer_bytes_per_second", machine.outer_bytes_per_second);
  count("launch_nanoseconds", machine.launch_nanoseconds, 0);
  count("latency_nanoseconds", machine.latency_nanoseconds, 0);
  count("cores", machine.cores, 0);
  count("cache_bytes", machine.cache_bytes, 0);
  count("wake_nanoseconds", machine.wake_nanoseconds, 0);
}

int64_t Nanoseconds(double amount, double per_second) {
  // Days; sums of it stay numbers.
  constexpr double kMost = static_cast<double>(int64_t{1} << 50);
  return static_cast<int64_t>(std::min(kMost, std::ceil(amount / per_second * 1e9)));
}

}  // namespace

std::string ToString(DeviceId device) {
  const absl::string_view kind =
      device.kind == DeviceKind::kCpu ? absl::string_view() : DeviceKindName(device.kind);
  return absl::StrCat(device.rank, ":", kind, device.local);
}

Machine Machine::Cpu() { return Machine(); }

absl::StatusOr<Machine> Machine::Parse(absl::string_view text) {
  Machine machine;
  for (absl::string_view word : absl::StrSplit(text, absl::ByAnyChar(" \t\n"), absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(word, absl::MaxSplits('=', 1));
    absl::string_view name = pair.first;
    if (absl::ConsumePrefix(&name, kKernel)) {
      absl::StatusOr<KernelTimes> times = KernelTimes::Parse(name, pair.second);
      if (!times.ok()) return AddContext(times.status(), absl::StrCat("machine: ", pair.first));
      machine.kernels.push_back(*std::move(times));
      continue;
    }
    bool known = false, good = false;
    std::vector<std::string> names;
    ForEachField(
        machine,
        [&](const char* name, int64_t& field, int64_t least) {
          names.push_back(name);
          if (pair.first != name) return;
          known = true;
          good = absl::SimpleAtoi(pair.second, &field) && field >= least;
        },
        [&](const char* name, double& field) {
          names.push_back(name);
          if (pair.first != name) return;
          known = true;
          good = absl::SimpleAtod(pair.second, &field) && field > 0 && std::isfinite(field);
        });
    if (!known) {
      return absl::InvalidArgumentError(absl::StrCat("machine: expected key=value with a key of ",
                                                     absl::StrJoin(names, ", "), "; got \"", word,
                                                     "\""));
    }
    if (!good) {
      return absl::InvalidArgumentError(absl::StrCat("machine: expected a positive number after ",
                                                     pair.first, "=, got \"", pair.second, "\""));
    }
  }
  return machine;
}

std::string Machine::ToString() const {
  std::vector<std::string> words;
  ForEachField(
      *this,
      [&](const char* name, int64_t field, int64_t) {
        words.push_back(absl::StrCat(name, "=", field));
      },
      [&](const char* name, double field) {
        std::string text = absl::StrFormat("%.6g", field);
        double back = 0;
        if (!absl::SimpleAtod(text, &back) || back != field) text = absl::StrFormat("%.17g", field);
        words.push_back(absl::StrCat(name, "=", text));
      });
  for (const KernelTimes& times : kernels) {
    words.push_back(absl::StrCat(kKernel, times.Name(), "=", times.ValueText()));
  }
  return absl::StrJoin(words, kernels.empty() ? " " : "\n");
}

Machine Machine::ForDevices(int64_t devices) const {
  Machine machine = *this;
  if (kernels.empty()) return machine;
  const int64_t threads = std::max<int64_t>(1, cores / std::max<int64_t>(1, devices));
  machine.kernels.clear();
  for (const KernelTimes& times : kernels) {
    if (times.threads > threads) continue;
    const auto same = std::find_if(
        machine.kernels.begin(), machine.kernels.end(),
        [&](const auto& k) { return k.kernel == times.kernel && k.cold == times.cold; });
    if (same == machine.kernels.end()) {
      machine.kernels.push_back(times);
    } else if (same->threads < times.threads) {
      *same = times;
    }
  }
  return machine;
}

int64_t Machine::ComputeNanoseconds(int64_t flops, int64_t bytes, bool bf16) const {
  const double speed = bf16 ? bf16_flops_per_second : flops_per_second;
  return launch_nanoseconds +
         std::max(Nanoseconds(static_cast<double>(flops), speed),
                  Nanoseconds(static_cast<double>(bytes), memory_bytes_per_second));
}

bool Machine::HasKernel(absl::string_view kernel) const {
  return std::any_of(kernels.begin(), kernels.end(),
                     [&](const KernelTimes& times) { return times.kernel == kernel; });
}

int64_t Machine::KernelNanoseconds(absl::string_view kernel, absl::Span<const int64_t> sizes,
                                   int64_t flops, int64_t bytes, bool bf16) const {
  const KernelTimes* times = bf16 ? nullptr : FindTimes(kernel, sizes, false);
  if (times == nullptr) return ComputeNanoseconds(flops, bytes, bf16);
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return launch_nanoseconds;
  return launch_nanoseconds + times->At(sizes);
}

int64_t Machine::ColdNanoseconds(absl::string_view kernel, absl::Span<const int64_t> sizes) const {
  const KernelTimes* hot = FindTimes(kernel, sizes, false);
  const KernelTimes* cold = FindTimes(kernel, sizes, true);
  if (hot == nullptr || cold == nullptr) return 0;
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return 0;
  return std::max<int64_t>(0, cold->At(sizes) - hot->At(sizes));
}

const KernelTimes* Machine::FindTimes(absl::string_view kernel, absl::Span<const int64_t> sizes,
                                      bool cold) const {
  for (const KernelTimes& times : kernels) {
    if (times.kernel == kernel && times.cold == cold && times.sizes.size() == sizes.size()) {
      return &times;
    }
  }
  return nullptr;
}

int64_t Machine::LinkNanoseconds(int64_t bytes, bool between_nodes) const {
  return Nanoseconds(static_cast<double>(bytes),
                     between_nodes ? outer_bytes_per_second : inner_bytes_per_second);
}

int64_t Machine::NodeOf(DeviceId device) const {
  return (device.rank * devices_per_rank + device.local) / devices_per_node;
}

}  // namespace sluice
