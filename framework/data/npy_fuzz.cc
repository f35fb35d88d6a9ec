// A .npy file, plain or packed. What is read and written again is read as the same.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "framework/base/log.h"
#include "framework/data/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<sluice::NpyArray> array = sluice::ParseNpy("input", bytes);
  if (!array.ok()) return 0;
  SLUICE_CHECK_EQ(array->shape.NumElements() * array->item_bytes,
                  static_cast<int64_t>(array->values.size()));
  const std::string written = sluice::NpyBytes(*array);
  const absl::StatusOr<sluice::NpyArray> again = sluice::ParseNpy("again", written);
  SLUICE_CHECK_OK(again.status());
  SLUICE_CHECK(again->values == array->values && again->shape == array->shape);
  SLUICE_CHECK(again->TypeName() == array->TypeName());
  return 0;
}
