// Lines NAME=VALUE as the environment; "--rendezvous=..." as the user's address. What is taken must
// be a place.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "framework/base/log.h"
#include "framework/cluster/launch_place.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;  // NOLINT: a fuzz target is nothing but its one function
  std::map<std::string, std::string> values;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    values.insert(absl::StrSplit(line, absl::MaxSplits('=', 1)));
  }
  const auto place = ReadLaunchPlace(
      [&](const char* name) {
        const auto found = values.find(name);
        return found == values.end() ? nullptr : found->second.c_str();
      },
      values["--rendezvous"]);
  if (!place.ok()) {
    SLUICE_CHECK(absl::IsInvalidArgument(place.status())) << place.status().ToString();
    return 0;
  }
  SLUICE_CHECK(place->rank >= 0 && place->rank < place->ranks) << place->text;
  SLUICE_CHECK(place->local_rank >= 0 && place->local_rank < place->ranks) << place->text;
  SLUICE_CHECK(place->local_ranks == 0 || place->local_rank < place->local_ranks) << place->text;
  SLUICE_CHECK(place->local_ranks <= place->ranks && place->restarts >= 0) << place->text;
  SLUICE_CHECK(place->address.empty() == (place->ranks == 1)) << place->text;
  SLUICE_CHECK(place->listener == -1 || (place->listener > 2 && place->rank == 0)) << place->text;
  return 0;
}
