// Introductions of other processes: whatever parses is printed and parses again as itself.
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "framework/base/log.h"
#include "framework/comm/introductions.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto parsed = sluice::ParseIntroductions(text);
  if (!parsed.ok()) return 0;
  const auto again = sluice::ParseIntroductions(sluice::PrintIntroductions(*parsed));
  SLUICE_CHECK(again.ok()) << again.status().message();
  SLUICE_CHECK(*again == *parsed) << "printed and parsed it is another";
  return 0;
}
