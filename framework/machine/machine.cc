#include "framework/machine/machine.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace sluice {
namespace {

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
}

int64_t Nanoseconds(double amount, double per_second) {
  return static_cast<int64_t>(std::ceil(amount / per_second * 1e9));
}

}  // namespace

std::string ToString(DeviceId device) { return absl::StrCat(device.rank, ":", device.local); }

Machine Machine::Cpu() { return Machine(); }

absl::StatusOr<Machine> Machine::Parse(absl::string_view text) {
  Machine machine;
  for (absl::string_view word : absl::StrSplit(text, absl::ByAnyChar(" \t\n"), absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(word, absl::MaxSplits('=', 1));
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
  return absl::StrJoin(words, " ");
}

int64_t Machine::ComputeNanoseconds(int64_t flops, int64_t bytes, bool bf16) const {
  const double speed = bf16 ? bf16_flops_per_second : flops_per_second;
  return launch_nanoseconds +
         std::max(Nanoseconds(static_cast<double>(flops), speed),
                  Nanoseconds(static_cast<double>(bytes), memory_bytes_per_second));
}

int64_t Machine::LinkNanoseconds(int64_t bytes, bool between_nodes) const {
  return Nanoseconds(static_cast<double>(bytes),
                     between_nodes ? outer_bytes_per_second : inner_bytes_per_second);
}

int64_t Machine::NodeOf(DeviceId device) const {
  return (device.rank * devices_per_rank + device.local) / devices_per_node;
}

}  // namespace sluice
