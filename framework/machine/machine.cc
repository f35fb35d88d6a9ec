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
  count("devices_per_host", machine.devices_per_host, 1);
  rate("flops_per_second", machine.flops_per_second);
  rate("bf16_flops_per_second", machine.bf16_flops_per_second);
  rate("memory_bytes_per_second", machine.memory_bytes_per_second);
  rate("process_bytes_per_second", machine.link(LinkKind::kProcess).bytes_per_second);
  rate("host_bytes_per_second", machine.link(LinkKind::kHost).bytes_per_second);
  rate("network_bytes_per_second", machine.link(LinkKind::kNetwork).bytes_per_second);
  count("launch_nanoseconds", machine.launch_nanoseconds, 0);
  count("process_latency_nanoseconds", machine.link(LinkKind::kProcess).latency_nanoseconds, 0);
  count("host_latency_nanoseconds", machine.link(LinkKind::kHost).latency_nanoseconds, 0);
  count("network_latency_nanoseconds", machine.link(LinkKind::kNetwork).latency_nanoseconds, 0);
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

absl::string_view LinkKindName(LinkKind kind) {
  constexpr absl::string_view kNames[] = {"process", "host", "network"};
  return kNames[static_cast<size_t>(kind)];
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

int64_t Machine::LinkNanoseconds(int64_t bytes, LinkKind kind) const {
  return Nanoseconds(static_cast<double>(bytes), link(kind).bytes_per_second);
}

LinkKind Machine::LinkBetween(DeviceId a, DeviceId b) const {
  if (HostOf(a) != HostOf(b)) return LinkKind::kNetwork;
  return a.rank == b.rank ? LinkKind::kProcess : LinkKind::kHost;
}

int64_t Machine::HostOf(DeviceId device) const {
  if (!host_of_rank.empty()) return host_of_rank[static_cast<size_t>(device.rank)];
  return (device.rank * devices_per_rank + device.local) / devices_per_host;
}

std::string Machine::LinksText() const {
  std::string text;
  for (int k = 0; k < kLinkKinds; ++k) {
    absl::StrAppendFormat(&text, "%s %d ns %.17g B/s, ", LinkKindName(static_cast<LinkKind>(k)),
                          links[k].latency_nanoseconds, links[k].bytes_per_second);
  }
  return absl::StrCat(text, "devices of a rank ", devices_per_rank, ", of a host ",
                      devices_per_host, ", hosts of ranks ", absl::StrJoin(host_of_rank, " "));
}

}  // namespace sluice
