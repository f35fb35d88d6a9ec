// Numbers of files, which are little endian, as this machine has them. Pure.
#ifndef SLUICE_FRAMEWORK_DATA_LITTLE_ENDIAN_H_
#define SLUICE_FRAMEWORK_DATA_LITTLE_ENDIAN_H_

#include <bit>
#include <cstddef>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"

namespace sluice {

static_assert(std::endian::native == std::endian::little, "files are little endian");

// The number that begins at byte `at`; the caller has seen to it that it is there.
template <typename T>
T Take(absl::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

template <typename T>
void Put(T value, std::string* to) {
  to->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_LITTLE_ENDIAN_H_
