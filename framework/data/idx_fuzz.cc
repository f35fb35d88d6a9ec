// An IDX file, plain or gzipped.
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "framework/base/log.h"
#include "framework/data/idx.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<sluice::IdxArray> array = sluice::ParseIdx("input", bytes);
  if (!array.ok()) return 0;
  SLUICE_CHECK_EQ(array->shape.NumElements(), array->values.size());
  return 0;
}
