// A command line, one argument a line, for a program with a flag of every type.
#include "framework/train/flags.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "framework/base/log.h"

ABSL_FLAG(int64_t, layers, 4, "transformer blocks");
ABSL_FLAG(uint64_t, seed, 1, "of all random numbers");
ABSL_FLAG(double, lr, 1e-3, "learning rate at its highest");
ABSL_FLAG(bool, explain, false, "print the plan and stop");
ABSL_FLAG(std::string, mesh, "data=2", "the devices");

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using sluice::FlagGroup;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const std::vector<std::string> arguments = absl::StrSplit(text, '\n');
  const std::vector<FlagGroup> groups = {
      {"Model", {{"layers", "N", "by preset"}, {"seed", "N", ""}, {"lr", "X", ""}}},
      {"Machine", {{"mesh", "AXES", ""}, {"explain", "", ""}}}};
  sluice::ParsedFlags parsed;
  if (!sluice::ParseFlags(groups, arguments, &parsed).ok()) return 0;
  // What a checkpoint would record must read back, and give the same again.
  const std::set<std::string> names = {"layers", "seed", "lr", "mesh", "explain"};
  const auto values = sluice::FlagValues(groups, names);
  sluice::ParsedFlags restored;
  SLUICE_CHECK_OK(sluice::RestoreFlags(
      groups, names, std::map<std::string, std::string>(values.begin(), values.end()), &restored));
  SLUICE_CHECK(sluice::FlagValues(groups, names) == values);
  SLUICE_CHECK(!sluice::FlagsHelp("Trains.", groups).empty());
  return 0;
}
