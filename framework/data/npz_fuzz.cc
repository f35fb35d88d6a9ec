// A .npz file: the directory of a .zip, what it packs, and the arrays in it. What is read and
// written again, packed the other way, is read as the same.
#include <cstddef>
#include <cstdint>
#include <string>

#include "framework/base/log.h"
#include "framework/data/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<sluice::NamedArrays> arrays = sluice::ParseNpz("input", bytes);
  if (!arrays.ok()) return 0;
  const absl::StatusOr<std::string> written = sluice::NpzBytes(*arrays, size % 2 == 0);
  SLUICE_CHECK_OK(written.status());
  const absl::StatusOr<sluice::NamedArrays> again = sluice::ParseNpz("again", *written);
  SLUICE_CHECK_OK(again.status());
  SLUICE_CHECK_EQ(again->size(), arrays->size());
  for (size_t i = 0; i < again->size(); ++i) {
    SLUICE_CHECK((*again)[i].first == (*arrays)[i].first);
    SLUICE_CHECK((*again)[i].second.values == (*arrays)[i].second.values);
  }
  return 0;
}
