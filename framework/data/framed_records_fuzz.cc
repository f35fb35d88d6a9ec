// A TFRecord or OFRecord file; the first byte says which. What is read of it and written again is
// read as the same.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "framework/base/log.h"
#include "framework/data/example.h"
#include "framework/data/framed_records.h"

namespace sluice {
namespace {

void CheckExample(Framing framing, absl::string_view record) {
  const absl::StatusOr<Example> example = ParseExample(framing, record);
  if (!example.ok()) return;
  const absl::StatusOr<std::string> bytes = ExampleBytes(framing, *example);
  SLUICE_CHECK_OK(bytes.status());
  const absl::StatusOr<Example> again = ParseExample(framing, *bytes);
  SLUICE_CHECK_OK(again.status());
  SLUICE_CHECK(*ExampleBytes(framing, *again) == *bytes);
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  using sluice::Framing;
  const Framing framing = (data[0] & 1) != 0 ? Framing::kOfRecord : Framing::kTfRecord;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  // Checksums keep most inputs from a message's parser.
  sluice::CheckExample(framing, bytes);
  const auto records =
      sluice::FramedRecords::Open(framing, sluice::RandomAccessFile::OfBytes("input", bytes));
  if (!records.ok()) return 0;
  std::string again, record;
  for (int64_t i = 0; i < records->num_records(); ++i) {
    if (!records->Read(i, &record).ok()) return 0;
    sluice::AppendFramed(framing, record, &again);
    sluice::CheckExample(framing, record);
  }
  SLUICE_CHECK(again + bytes.substr(bytes.size() - records->cut_bytes()) == bytes);
  return 0;
}
