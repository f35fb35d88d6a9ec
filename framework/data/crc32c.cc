#include "framework/data/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace sluice {
namespace {

constexpr uint32_t kReversedPolynomial = 0x82f63b78;

constexpr std::array<uint32_t, 256> kOfByte = [] {
  std::array<uint32_t, 256> table = {};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kReversedPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}();

#if defined(__x86_64__)
// 8 bytes every three cycles, some twenty times as fast as by the table.
__attribute__((target("sse4.2"))) uint32_t ByInstruction(absl::string_view bytes) {
  uint64_t crc = ~uint32_t{0};
  for (; bytes.size() >= sizeof(uint64_t); bytes.remove_prefix(sizeof(uint64_t))) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), sizeof(word));
    crc = _mm_crc32_u64(crc, word);
  }
  auto small = static_cast<uint32_t>(crc);
  for (const char byte : bytes) small = _mm_crc32_u8(small, static_cast<uint8_t>(byte));
  return ~small;
}
#endif

}  // namespace

uint32_t internal::PortableCrc32c(absl::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes)
    crc = (crc >> 8) ^ kOfByte[(crc ^ static_cast<uint8_t>(byte)) & 255];
  return ~crc;
}

uint32_t Crc32c(absl::string_view bytes) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return ByInstruction(bytes);
#endif
  return internal::PortableCrc32c(bytes);
}

uint32_t MaskedCrc32c(absl::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

}  // namespace sluice
