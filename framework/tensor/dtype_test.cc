#include "framework/tensor/dtype.h"

#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(DType, NamesAndSizes) {
  for (DType dtype : kDTypes) {
    EXPECT_EQ(*ParseDType(DTypeName(dtype)), dtype);
    EXPECT_TRUE(IsDType(static_cast<int64_t>(dtype)));
  }
  EXPECT_EQ(SizeOf(DType::kF64), 8);
  EXPECT_EQ(SizeOf(DType::kF32), 4);
  EXPECT_EQ(SizeOf(DType::kI32), 4);
  EXPECT_EQ(SizeOf(DType::kBF16), 2);
  EXPECT_EQ(SizeOf(DType::kU8), 1);
  EXPECT_FALSE(IsFloat(DType::kI32));
  EXPECT_FALSE(IsFloat(DType::kU8));
  EXPECT_FALSE(IsDType(-1));
  EXPECT_FALSE(IsDType(static_cast<int64_t>(std::size(kDTypes))));
  EXPECT_FALSE(ParseDType("f16").ok());
}

TEST(BFloat16, EveryValueComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = BFloat16ToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(BFloat16ToFloat(FloatToBFloat16(value))));
    } else {
      EXPECT_EQ(FloatToBFloat16(value), bits);
    }
  }
}

TEST(BFloat16, RoundsToNearestEven) {
  const float one = 1.0f, step = 1.0f / 128;
  EXPECT_EQ(BFloat16ToFloat(FloatToBFloat16(one + step * 0.49f)), one);
  EXPECT_EQ(BFloat16ToFloat(FloatToBFloat16(one + step * 0.5f)), one);             // tie to even
  EXPECT_EQ(BFloat16ToFloat(FloatToBFloat16(one + step * 1.5f)), one + 2 * step);  // tie to even
  EXPECT_EQ(BFloat16ToFloat(FloatToBFloat16(one + step * 0.51f)), one + step);
  EXPECT_TRUE(std::isinf(BFloat16ToFloat(FloatToBFloat16(std::numeric_limits<float>::max()))));
  // A NaN whose payload lies in the lower half only must not become infinity.
  const uint32_t bits = 0x7f800001;
  float quiet;
  std::memcpy(&quiet, &bits, sizeof(quiet));
  EXPECT_TRUE(std::isnan(BFloat16ToFloat(FloatToBFloat16(quiet))));
}

}  // namespace
}  // namespace sluice
