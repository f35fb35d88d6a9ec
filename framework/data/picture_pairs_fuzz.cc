// A pickle of pictures and truth values. What is read lies in the input.
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "framework/base/log.h"
#include "framework/data/picture_pairs.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<sluice::PicturePairs> pairs = sluice::ParsePicturePairs(bytes);
  if (!pairs.ok()) return 0;
  SLUICE_CHECK_EQ(pairs->pictures.size(), 2 * pairs->same.size());
  for (const absl::string_view picture : pairs->pictures) {
    SLUICE_CHECK(picture.empty() || (picture.data() >= bytes.data() &&
                                     picture.data() + picture.size() <= bytes.data() + size));
  }
  return 0;
}
