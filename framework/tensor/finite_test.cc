#include "framework/tensor/finite.h"

#include <cmath>
#include <limits>
#include <vector>

#include "framework/tensor/array.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr int64_t kElements = 9000;  // blocks, and a rest

TEST(FiniteTest, FindsTheFirstThatIsNoNumber) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
    HostTensor tensor(dtype, {kElements});
    const auto set = [&](int64_t at, double value) {
      StoreElement(dtype, tensor.bytes.data(), at, value);
    };
    for (int64_t i = 0; i < kElements; ++i) set(i, i % 2 == 0 ? -3e38 : 1e-30);
    EXPECT_FALSE(FirstNotFinite(dtype, tensor.bytes.data(), kElements));
    EXPECT_FALSE(HasNan(dtype, tensor.bytes.data(), kElements));
    for (const double bad : {infinity, -infinity, std::nan("")}) {
      for (const int64_t at : {0, 1, 1023, 1024, 4095, 8191, 8192, 8999}) {
        const double before = at % 2 == 0 ? -3e38 : 1e-30;
        set(at, bad);
        EXPECT_EQ(FirstNotFinite(dtype, tensor.bytes.data(), kElements), at) << bad;
        EXPECT_FALSE(FirstNotFinite(dtype, tensor.bytes.data(), at)) << bad;
        EXPECT_EQ(HasNan(dtype, tensor.bytes.data(), kElements), std::isnan(bad));
        set(at, before);
      }
    }
  }
}

TEST(FiniteTest, WholeNumbersAreNumbersWhateverTheirBits) {
  const std::vector<std::byte> ones(4 * kElements, std::byte{0xff});
  EXPECT_FALSE(FirstNotFinite(DType::kI32, ones.data(), kElements));
  EXPECT_FALSE(FirstNotFinite(DType::kU8, ones.data(), kElements));
  EXPECT_EQ(FirstNotFinite(DType::kF32, ones.data() + 1, kElements - 1), 0);  // not aligned
}

}  // namespace
}  // namespace sluice
