// What a rank says of its waits: what reads is written as what was read, and a culprit is found.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "framework/base/log.h"
#include "framework/runtime/waits.h"
#include "framework/wire/bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto rank =
      sluice::ByteReader({reinterpret_cast<const std::byte*>(data), size}).Fixed<int32_t>();
  const absl::StatusOr<sluice::RankWaits> waits = sluice::WaitsFromBytes(bytes, rank);
  if (!waits.ok()) return 0;
  SLUICE_CHECK(sluice::WaitsToBytes(*waits) == bytes);
  std::vector<sluice::RankAnswer> answers = {
      {"rank 0", *waits}, {"rank 1", *waits}, {"rank 2", {}}};
  for (const int32_t asker : {0, 1}) {
    SLUICE_CHECK(!sluice::CulpritText(asker, answers).empty());
  }
  const std::vector<sluice::RankWaits> ranks(2, *waits);
  sluice::FindStraggler(ranks);
  return 0;
}
