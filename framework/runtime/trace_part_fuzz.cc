// What a rank says that its trace is: what reads is written as what was read, and the file that two
// such parts make is JSON.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/runtime/trace.h"
#include "nlohmann/json.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<sluice::TracePart> part = sluice::PartFromBytes(bytes);
  if (!part.ok()) return 0;
  SLUICE_CHECK(sluice::PartToBytes(*part) == bytes);
  const auto twice = [](const std::string& text) {
    return absl::StrCat(text, text.empty() ? "" : ",\n", text);
  };
  SLUICE_CHECK(nlohmann::json::accept(absl::StrCat("{\"traceEvents\":[", twice(part->events),
                                                   "],\"otherData\":{", twice(part->other), "}}")));
  return 0;
}
