// A file of HugeCTR's Raw format; the first two bytes say which columns it has. What is read of it
// and written again is the file.
#include <cstddef>
#include <cstdint>
#include <string>

#include "framework/base/log.h"
#include "framework/data/hugectr_raw.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  sluice::RawColumns columns;
  columns.labels = data[0] % 4;
  columns.numbers = data[0] / 4 % 16;
  columns.keys = data[1] % 32;
  columns.floats = data[1] < 128;
  const std::string bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const auto raw =
      sluice::HugeCtrRaw::Open(columns, sluice::RandomAccessFile::OfBytes("input", bytes));
  if (!raw.ok()) return 0;
  const auto samples = raw->Read(0, raw->num_samples());
  if (!samples.ok()) return 0;
  std::string again;
  for (const sluice::RawSample& sample : *samples) again += sluice::RawBytes(columns, sample);
  SLUICE_CHECK_EQ(static_cast<int64_t>(again.size()) + raw->cut_bytes(),
                  static_cast<int64_t>(bytes.size()));
  // Integers above 2^24 are no floats.
  SLUICE_CHECK(!columns.floats || bytes.compare(0, again.size(), again) == 0);
  return 0;
}
