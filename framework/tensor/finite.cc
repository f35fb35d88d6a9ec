#include "framework/tensor/finite.h"

#include <algorithm>
#include <cstring>

namespace sluice {
namespace {

// Which bits of a float make it bad: those where bits & mask is above `most`. Of a float that is
// not finite all bits of the exponent are ones, and those of the fraction are not looked at; of a
// NaN they are more than an infinity's, whose fraction is 0. As the largest of many is above `most`
// where any is, a block costs two vector instructions for each vector.
template <typename Bits>
struct BadBits {
  Bits mask, most;
  bool operator()(Bits bits) const { return (bits & mask) > most; }
};

template <typename Bits, int kFractionBits>
constexpr BadBits<Bits> NotFiniteBits() {
  constexpr Bits kFraction = (Bits{1} << kFractionBits) - 1;
  constexpr Bits kExponent = (static_cast<Bits>(~Bits{0}) >> 1) - kFraction;
  return {kExponent, kExponent - 1};
}
template <typename Bits, int kFractionBits>
constexpr BadBits<Bits> NanBits() {
  constexpr Bits kFraction = (Bits{1} << kFractionBits) - 1;
  constexpr Bits kAllButSign = static_cast<Bits>(~Bits{0}) >> 1;
  return {kAllButSign, kAllButSign - kFraction};
}

template <typename Bits>
Bits BitsAt(const std::byte* data, int64_t i) {
  Bits bits;
  std::memcpy(&bits, data + i * static_cast<int64_t>(sizeof(Bits)), sizeof(Bits));
  return bits;
}

// Elements that are looked at before the search stops at what it found. Their number is fixed and
// none has a branch of its own, so that the compiler makes vector instructions of the loop.
constexpr int64_t kBlock = 1024;

template <typename Bits>
[[gnu::always_inline]] inline bool AnyOfBlock(const std::byte* block, BadBits<Bits> bad) {
  Bits largest = 0;
#pragma GCC unroll 8
  for (int64_t i = 0; i < kBlock; ++i) {
    largest = std::max<Bits>(largest, BitsAt<Bits>(block, i) & bad.mask);
  }
  return bad(largest);
}
template <typename Bits>
bool AnyOfBlockPlain(const std::byte* block, BadBits<Bits> bad) {
  return AnyOfBlock(block, bad);
}
template <typename Bits>
[[gnu::target("avx2")]] bool AnyOfBlockAvx2(const std::byte* block, BadBits<Bits> bad) {
  return AnyOfBlock(block, bad);
}

// The first bad element; `elements` if there is none.
template <typename Bits>
int64_t FirstBad(const std::byte* data, int64_t elements, BadBits<Bits> bad) {
  static const auto any_of_block =
      __builtin_cpu_supports("avx2") ? AnyOfBlockAvx2<Bits> : AnyOfBlockPlain<Bits>;
  int64_t i = 0;
  while (i + kBlock <= elements &&
         !any_of_block(data + i * static_cast<int64_t>(sizeof(Bits)), bad)) {
    i += kBlock;
  }
  while (i < elements && !bad(BitsAt<Bits>(data, i))) ++i;
  return i;
}

}  // namespace

std::optional<int64_t> FirstNotFinite(DType dtype, const std::byte* data, int64_t elements) {
  int64_t first = elements;
  switch (dtype) {
    case DType::kF32:
      first = FirstBad(data, elements, NotFiniteBits<uint32_t, 23>());
      break;
    case DType::kF64:
      first = FirstBad(data, elements, NotFiniteBits<uint64_t, 52>());
      break;
    case DType::kBF16:
      first = FirstBad(data, elements, NotFiniteBits<uint16_t, 7>());
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
      return FirstBad(data, elements, NanBits<uint32_t, 23>()) < elements;
    case DType::kF64:
      return FirstBad(data, elements, NanBits<uint64_t, 52>()) < elements;
    case DType::kBF16:
      return FirstBad(data, elements, NanBits<uint16_t, 7>()) < elements;
    case DType::kI32:
    case DType::kU8:
      return false;
  }
  return false;
}

}  // namespace sluice
