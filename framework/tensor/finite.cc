#include "framework/tensor/finite.h"

#include <algorithm>
#include <cstring>

namespace sluice {
namespace {

// Elements that are looked at before the search stops at what it found: their bits are gathered
// without a branch each, which the compiler turns into vector instructions because the count is
// fixed.
constexpr int64_t kBlock = 4096;

// The first element whose bits `is_bad` returns true for; `elements` if there is none.
template <typename Bits, typename IsBad>
int64_t FirstBad(const std::byte* data, int64_t elements, IsBad is_bad) {
  const auto at = [data](int64_t i) {
    Bits bits;
    std::memcpy(&bits, data + i * static_cast<int64_t>(sizeof(Bits)), sizeof(Bits));
    return bits;
  };
  int64_t i = 0;
  for (; i + kBlock <= elements; i += kBlock) {
    Bits any = 0;
    for (int64_t j = 0; j < kBlock; ++j) any |= is_bad(at(i + j)) ? 1 : 0;
    if (any != 0) break;
  }
  while (i < elements && !is_bad(at(i))) ++i;
  return i;
}

}  // namespace

std::optional<int64_t> FirstNotFinite(DType dtype, const std::byte* data, int64_t elements) {
  // A float that is no number has a one in every bit of its exponent.
  int64_t first = elements;
  switch (dtype) {
    case DType::kF32:
      first = FirstBad<uint32_t>(data, elements,
                                 [](uint32_t x) { return (x & 0x7f800000u) == 0x7f800000u; });
      break;
    case DType::kF64:
      first = FirstBad<uint64_t>(data, elements, [](uint64_t x) {
        constexpr uint64_t kExponent = uint64_t{0x7ff} << 52;
        return (x & kExponent) == kExponent;
      });
      break;
    case DType::kBF16:
      first =
          FirstBad<uint16_t>(data, elements, [](uint16_t x) { return (x & 0x7f80u) == 0x7f80u; });
      break;
    case DType::kI32:
    case DType::kU8:
      break;
  }
  return first < elements ? std::optional(first) : std::nullopt;
}

bool HasNan(DType dtype, const std::byte* data, int64_t elements) {
  switch (dtype) {
    case DType::kF32:
      return FirstBad<uint32_t>(data, elements, [](uint32_t x) {
               return (x & 0x7fffffffu) > 0x7f800000u;
             }) < elements;
    case DType::kF64:
      return FirstBad<uint64_t>(data, elements, [](uint64_t x) {
               return (x << 1) > (uint64_t{0x7ff} << 53);
             }) < elements;
    case DType::kBF16:
      return FirstBad<uint16_t>(data, elements,
                                [](uint16_t x) { return (x & 0x7fffu) > 0x7f80u; }) < elements;
    case DType::kI32:
    case DType::kU8:
      return false;
  }
  return false;
}

}  // namespace sluice
