// Bytes of a model.safetensors.index.json; what reads prints as what reads back.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "framework/base/log.h"
#include "framework/checkpoint/safetensors_shards.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto files = sluice::ParseShardIndex(text, "input");
  if (!files.ok()) return 0;
  for (const auto& [tensor, file] : *files) {
    SLUICE_CHECK(!file.empty() && file != ".." && !absl::StrContains(file, '/')) << file;
  }
  const auto again = sluice::ParseShardIndex(sluice::PrintShardIndex(*files, 3, 12), "printed");
  SLUICE_CHECK_OK(again.status());
  SLUICE_CHECK(*again == *files);
  return 0;
}
