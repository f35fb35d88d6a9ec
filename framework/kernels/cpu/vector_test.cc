// What a kernel cannot show: accuracy in units of the last place, ends of the range, stores past
// the caches. Loops give the same bits at every level: conformance:kernels_test compares kernels.
#include "framework/kernels/cpu/vector.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "framework/tensor/dtype.h"
#include "framework/tensor/random.h"
#include "gtest/gtest.h"

namespace sluice::cpu {
namespace {

using Floats = std::vector<float>;

Floats Random(int64_t n, uint32_t seed, float low = -8, float high = 8) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> draw(low, high);
  Floats values(n);
  for (float& value : values) value = draw(random);
  return values;
}

std::string Bits(const Floats& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * 4);
}

// Runs fn with both tables; what it writes must be the same bit for bit.
void ExpectSameBits(const std::string& name,
                    const std::function<void(const VectorTable&, Floats*)>& fn, int64_t outputs) {
  Floats v3(outputs, -1), v4(outputs, -1);
  fn(VectorsOf(Isa::kV3), &v3);
  fn(VectorsOf(Isa::kV4), &v4);
  EXPECT_EQ(Bits(v3), Bits(v4)) << name;
}

class VectorLevelsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!Runs(Isa::kV4)) GTEST_SKIP() << "this processor has no AVX-512";
  }
};

std::vector<Isa> Levels() {
  std::vector<Isa> levels = {Isa::kV3};
  if (Runs(Isa::kV4)) levels.push_back(Isa::kV4);
  return levels;
}

TEST(VectorTest, DropoutDrawsTheWordsOfTheLogicalIndex) {
  const uint64_t seed = 0x123456789abcdef0;
  const int64_t key = 0x3edcba9876543210, step = int64_t{1} << 33 | 5;
  const auto words = PhiloxKey(seed, key);
  const uint32_t threshold = DropoutThreshold(0.3);
  for (Isa isa : Levels()) {
    for (int64_t first :
         {int64_t{0}, int64_t{1}, int64_t{63}, int64_t{100}, (int64_t{1} << 34) - 70}) {
      const int64_t n = 259;
      const Floats x(n, 3);
      Floats y(n, -1);
      VectorsOf(isa).f32.activation.dropout({words[0], words[1], step}, threshold, 2, first,
                                            x.data(), y.data(), n);
      for (int64_t i = 0; i < n; ++i) {
        const bool kept = RandomWord(seed, key, step, first + i) >= threshold;
        ASSERT_EQ(y[i], kept ? 6 : 0) << first << " + " << i;
      }
    }
  }
}

// Errors in units of the last place, against f64.
double UlpError(float got, double exact) {
  const float rounded = static_cast<float>(exact);
  const double ulp =
      std::nextafter(std::abs(rounded), std::numeric_limits<float>::infinity()) - std::abs(rounded);
  return std::abs(got - exact) / ulp;
}

TEST(VectorTest, ExponentialAndLogarithmAreAccurate) {
  const float zero = 0;
  double worst_exp = 0, worst_log = 0;
  for (float x = -86; x < 88.7f; x += 0.0137f) {
    float sum;
    Vectors().f32.cross_entropy.sum_exp(&x, &zero, &sum, 1, 1);
    worst_exp = std::max(worst_exp, UlpError(sum, std::exp(static_cast<double>(x))));
  }
  for (float x = 1e-30f; x < 1e30f; x *= 1.00937f) {
    float loss;
    Vectors().f32.cross_entropy.combine(&zero, &x, &zero, &loss, 1);
    const double exact = std::log(static_cast<double>(x));
    if (std::abs(exact) > 1e-3) worst_log = std::max(worst_log, UlpError(loss, exact));
  }
  EXPECT_LT(worst_exp, 1.5);
  EXPECT_LT(worst_log, 2.5);
}

TEST(VectorTest, ExponentialAtTheEnds) {
  const float zero = 0, infinity = std::numeric_limits<float>::infinity();
  for (Isa isa : Levels()) {
    const auto exp = [&](float x) {
      float sum;
      VectorsOf(isa).f32.cross_entropy.sum_exp(&x, &zero, &sum, 1, 1);
      return sum;
    };
    EXPECT_EQ(exp(0), 1);
    EXPECT_EQ(exp(-infinity), 0);
    EXPECT_EQ(exp(-100), 0);
    EXPECT_EQ(exp(infinity), infinity);
    EXPECT_EQ(exp(89), infinity);
    EXPECT_GT(exp(88.7f), 3.3e38f);
    EXPECT_LT(exp(88.7f), infinity);
    EXPECT_TRUE(std::isnan(exp(std::nanf(""))));
    EXPECT_TRUE(std::isnan(exp(std::nanf("0x1fff"))));
  }
}

// Within a few units of the last place, and what they are of the exponent: it is rounded before e
// is raised to it.
TEST(VectorTest, GeluIsAccurate) {
  const double twice = 1.5957691216057307117597842, cubic = 0.044715;
  for (Isa isa : Levels()) {
    const ActivationVector<float>& loops = VectorsOf(isa).f32.activation;
    const float one = 1;
    for (float at = -12; at < 12; at += 0.00037f) {
      const double x = at, exponent = twice * (x + cubic * x * x * x);
      const double s = 1 / (1 + std::exp(-exponent)), value = x * s;
      const double slope = s + value * (1 - s) * twice * (1 + 3 * cubic * x * x);
      float y, dx;
      loops.gelu(&at, &y, 1);
      loops.gelu_gradient(&at, &one, &dx, 1);
      const double relative = 4e-7 + 2e-7 * std::max(0.0, -exponent);
      ASSERT_NEAR(y, value, relative * std::abs(value) + 2e-37) << at;
      ASSERT_NEAR(dx, slope,
                  relative * std::abs(slope) + 4e-7 * std::min(1.0, std::abs(s * x * x)) + 3e-36)
          << at;
    }
  }
}

TEST(VectorTest, GeluAtTheEnds) {
  const float infinity = std::numeric_limits<float>::infinity(), one = 1;
  for (Isa isa : Levels()) {
    const ActivationVector<float>& loops = VectorsOf(isa).f32.activation;
    for (float x : {20.0f, 1e10f, 1e20f, 3e38f, infinity, -20.0f, -1e20f, -3e38f, -infinity}) {
      float y, dx;
      loops.gelu(&x, &y, 1);
      loops.gelu_gradient(&x, &one, &dx, 1);
      if (x > 0) {
        EXPECT_EQ(y, x);
        EXPECT_EQ(dx, 1);
      } else {
        EXPECT_NEAR(y, 0, 1e-35) << x;
        EXPECT_NEAR(dx, 0, 1e-35) << x;
      }
    }
  }
}

// Levels agree on arguments of every size, and where a result stops being finite or normal.
TEST_F(VectorLevelsTest, ExponentialsGiveTheSameBitsEverywhere) {
  Floats x;
  for (float a = -110; a < 95; a += 0.0031f) x.push_back(a);
  for (float a = 88.7227f; a < 88.7229f; a = std::nextafter(a, 100.0f)) x.push_back(a);
  for (float a = 1e-40f; a < 1e38f; a *= 3.7f) {
    x.push_back(a);
    x.push_back(-a);
  }
  const int64_t n = static_cast<int64_t>(x.size());
  const Floats zero(n), one(n, 1);
  ExpectSameBits(
      "exp",
      [&](const VectorTable& t, Floats* out) {
        t.f32.cross_entropy.sum_exp(x.data(), zero.data(), out->data(), n, 1);
      },
      n);
  ExpectSameBits(
      "gelu",
      [&](const VectorTable& t, Floats* out) { t.f32.activation.gelu(x.data(), out->data(), n); },
      n);
  ExpectSameBits(
      "gelu_gradient",
      [&](const VectorTable& t, Floats* out) {
        t.f32.activation.gelu_gradient(x.data(), one.data(), out->data(), n);
      },
      n);
}

// Arrays beyond the caches are stored past them: the values are those of short pieces.
TEST(VectorTest, LongArraysAreStoredAsShortOnes) {
  constexpr int64_t n = (4 << 20) + 7, kPiece = 4096;
  const Floats x = Random(n, 21, -3, 3);
  Floats long_y(n + 16), short_y(n + 16);
  const auto aligned = [](Floats& y) {
    void* at = y.data();
    size_t space = (n + 16) * 4;
    return static_cast<float*>(std::align(64, n * 4, at, space));
  };
  for (Isa isa : Levels()) {
    const VectorTable& table = VectorsOf(isa);
    const auto both = [&](auto&& loop) {
      loop(x.data(), aligned(long_y), n);
      for (int64_t at = 0; at < n; at += kPiece) {
        loop(x.data() + at, aligned(short_y) + at, std::min(kPiece, n - at));
      }
      EXPECT_EQ(std::memcmp(aligned(long_y), aligned(short_y), n * 4), 0);
    };
    both(table.f32.activation.gelu);
    both(table.arithmetic.copy);
    both([&](const float* a, float* y, int64_t m) {
      table.f32.activation.gelu_gradient(a, a, y, m);
    });
    both([&](const float* a, float* y, int64_t m) { table.f32.elementwise.add.both(a, a, y, m); });
    both([&](const float* a, float* y, int64_t m) { table.f32.elementwise.scale(a, 3, y, m); });
  }
}

// A window of four pixels: its first maximum, or its first NaN whatever follows, gets the gradient.
TEST(VectorTest, TheGradientOfAMaximumGoesToTheFirstOfTheLargestOrNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::pair<Floats, int>> windows = {
      {{1, nan, 5, 2}, 1},       {{nan, 3, nan, 9}, 0}, {{2, 7, 7, 7}, 1},
      {{0.0f, -0.0f, 0, -1}, 0}, {{-3, -2, -1, 0}, 3},  {{1, 5, 6, nan}, 3}};
  for (Isa isa : Levels()) {
    for (const int64_t channels : {64, 50, 7}) {
      for (const auto& [window, expected] : windows) {
        const PoolImage image = {{1, 1, 1, 1, 0}, {4, 1, 4, 1, 0}, channels, channels, false};
        Floats x, dy(channels, 2), dx(4 * channels, -1);
        for (const float value : window) x.insert(x.end(), channels, value);
        std::vector<int32_t> scratch(kPoolChannels);
        VectorsOf(isa).f32.pool.max_gradient(image, x.data(), dy.data(), dx.data(), scratch.data());
        for (int64_t i = 0; i < 4 * channels; ++i) {
          ASSERT_EQ(dx[i], i / channels == expected ? 2 : 0)
              << "pixel " << i / channels << " of a window with its maximum at " << expected;
        }
      }
    }
  }
}

TEST(VectorTest, TransposesAnyExtents) {
  for (Isa isa : Levels()) {
    for (int64_t rows : {1, 7, 8, 19}) {
      for (int64_t columns : {1, 8, 13, 64}) {
        const int64_t from_row = columns + 3, to_row = rows + 5;
        const Floats x = Random(rows * from_row, 31, -1, 1);
        Floats y(columns * to_row, -7);
        VectorsOf(isa).arithmetic.transpose(x.data(), from_row, rows, columns, y.data(), to_row);
        for (int64_t c = 0; c < columns; ++c) {
          for (int64_t r = 0; r < to_row; ++r) {
            ASSERT_EQ(y[c * to_row + r], r < rows ? x[r * from_row + c] : -7);
          }
        }
      }
    }
  }
}

TEST(VectorTest, BFloat16RoundsLikeTheReference) {
  Floats x = Random(1000, 9, -1e30f, 1e30f);
  for (int i = 0; i < 500; ++i) x[i] = std::ldexp(x[i] / 1e30f, i % 60 - 140);  // denormals too
  x[0] = std::nanf("");
  x[1] = std::numeric_limits<float>::infinity();
  std::vector<uint16_t> y(x.size());
  Floats back(x.size());
  for (Isa isa : Levels()) {
    VectorsOf(isa).arithmetic.to_bf16(x.data(), y.data(), 1000);
    VectorsOf(isa).arithmetic.from_bf16(y.data(), back.data(), 1000);
    for (int i = 0; i < 1000; ++i) {
      ASSERT_EQ(y[i], FloatToBFloat16(x[i])) << x[i];
      const float expected = BFloat16ToFloat(y[i]);
      ASSERT_EQ(std::memcmp(&back[i], &expected, 4), 0);
    }
  }
}

}  // namespace
}  // namespace sluice::cpu
