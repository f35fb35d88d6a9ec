// A record of a RecordIO file. One that is read and written again is read as the same.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"
#include "framework/base/log.h"
#include "framework/data/record_io.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<sluice::PictureRecord> record = sluice::ParseRecord(bytes);
  if (!record.ok()) return 0;
  const absl::StatusOr<sluice::PictureRecord> again =
      sluice::ParseRecord(sluice::RecordBytes(*record));
  SLUICE_CHECK_OK(again.status());
  SLUICE_CHECK(again->bytes == record->bytes);
  SLUICE_CHECK(again->id == record->id && again->id2 == record->id2);
  SLUICE_CHECK_EQ(again->labels.size(), record->labels.size());
  // Labels may be no numbers.
  SLUICE_CHECK(std::memcmp(again->labels.data(), record->labels.data(),
                           record->labels.size() * sizeof(float)) == 0);
  return 0;
}
