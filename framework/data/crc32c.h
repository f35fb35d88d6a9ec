// CRC32C, the checksum of Castagnoli's polynomial, and the form in which TFRecord keeps it. Pure.
#ifndef SLUICE_FRAMEWORK_DATA_CRC32C_H_
#define SLUICE_FRAMEWORK_DATA_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace sluice {

uint32_t Crc32c(absl::string_view bytes);
// Turned and moved, so that a checksum of bytes that hold checksums is as good as others.
uint32_t MaskedCrc32c(absl::string_view bytes);

namespace internal {
// Without the processor's instruction for it; for tests.
uint32_t PortableCrc32c(absl::string_view bytes);
}  // namespace internal

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_CRC32C_H_
