// Margins at every angle: values by their formulas, gradients by finite differences. What shards,
// threads and bf16 do is the conformance tests' matter; their labels' range keeps them from small
// and negative cosines.
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <vector>

#include "absl/types/span.h"
#include "framework/attributes/attributes.h"
#include "framework/device/cpu_thread_pool.h"
#include "framework/kernels/cpu/library_call.h"
#include "framework/kernels/kernel.h"
#include "gtest/gtest.h"

namespace sluice::cpu {
namespace {

constexpr double kPi = std::numbers::pi;

// Of rows of one class, the label's.
std::vector<float> RunOp(const char* op, const MarginAttributes& margin,
                         absl::Span<const std::vector<float>> floats) {
  const int64_t rows = static_cast<int64_t>(floats[0].size());
  const Shard matrix = Shard::Whole(DType::kF32, {rows, 1});
  std::vector<int32_t> labels(rows, 0);
  std::vector<float> result(rows);
  KernelSpec spec;
  spec.op = op;
  spec.attributes = PrintAttributes(margin);
  spec.inputs = {matrix, Shard::Whole(DType::kI32, {rows})};
  std::vector<std::byte*> operands = {
      reinterpret_cast<std::byte*>(const_cast<float*>(floats[0].data())),
      reinterpret_cast<std::byte*>(labels.data())};
  if (floats.size() > 1) {
    spec.inputs.push_back(matrix);
    operands.push_back(reinterpret_cast<std::byte*>(const_cast<float*>(floats[1].data())));
  }
  spec.outputs = {matrix};
  operands.push_back(reinterpret_cast<std::byte*>(result.data()));
  CpuThreadPool thread_pool(1, InitKernelThread);
  const auto kernel = PrepareCpuKernel(spec);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  if (!kernel.ok()) return {};
  CpuStream stream(&thread_pool);
  EXPECT_TRUE((*kernel)->Launch({.stream = &stream}, operands.data(), nullptr).ok());
  return result;
}

TEST(MarginTest, LogitsAreTheFormulasAtEveryAngle) {
  const MarginAttributes arc = {64, 0.5, 0}, both = {32, 0.3, 0.2};
  for (const MarginAttributes& m : {arc, both}) {
    std::vector<float> cosines;
    std::vector<double> expected;
    for (int i = 0; i <= 180; ++i) {
      const double theta = i * kPi / 180;
      cosines.push_back(static_cast<float>(std::cos(theta)));
      const double moved = theta + m.angular <= kPi
                               ? std::cos(theta + m.angular)
                               : std::cos(theta) - m.angular * std::sin(m.angular);
      expected.push_back(m.scale * (moved - m.additive));
    }
    const std::vector<float> logits = RunOp("margin_logits", m, {cosines});
    for (size_t i = 0; i < logits.size(); ++i) {
      EXPECT_NEAR(logits[i], expected[i], 1e-5 * m.scale) << i << " degrees";
      if (i == 0) continue;
      EXPECT_LT(logits[i], logits[i - 1]) << i << " degrees: not falling";
    }
  }
}

TEST(MarginTest, GradientsAreThoseOfTheLogitsAtEveryAngle) {
  const MarginAttributes arc = {64, 0.5, 0}, cos = {64, 0, 0.4}, both = {32, 0.3, 0.2};
  constexpr double kStep = 1e-6;
  for (const MarginAttributes& m : {arc, cos, both}) {
    std::vector<float> cosines, ones;
    std::vector<double> slopes;
    for (int i = 2; i < 180; ++i) {
      const double theta = i * kPi / 180;
      const auto logit = [&m](double x) {
        const double angle = std::acos(x) + m.angular;
        const double moved = angle <= kPi ? std::cos(angle) : x - m.angular * std::sin(m.angular);
        return m.scale * (moved - m.additive);
      };
      if (std::abs(theta + m.angular - kPi) < 0.02) continue;  // where the two forms meet
      cosines.push_back(static_cast<float>(std::cos(theta)));
      ones.push_back(1);
      slopes.push_back((logit(std::cos(theta) + kStep) - logit(std::cos(theta) - kStep)) /
                       (2 * kStep));
    }
    const std::vector<float> logits = RunOp("margin_logits", m, {cosines});
    const std::vector<float> got = RunOp("margin_logits_gradient", m, {logits, ones});
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], slopes[i], 2e-3 * std::abs(slopes[i]) + 1e-3 * m.scale)
          << "cosine " << cosines[i];
    }
  }
}

// At both ends the sine is zero, and rounding takes cosines past them.
TEST(MarginTest, TheEndsAreFiniteAndNanStays) {
  const MarginAttributes m = {64, 0.5, 0};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> cosines = {1, 1.0000002F, -1, -1.0000002F, nan};
  const std::vector<float> logits = RunOp("margin_logits", m, {cosines});
  const std::vector<float> got =
      RunOp("margin_logits_gradient", m, {logits, std::vector<float>(cosines.size(), 1)});
  for (int i = 0; i < 2; ++i) {
    EXPECT_NEAR(logits[i], 64 * std::cos(0.5), 1e-4);
    EXPECT_NEAR(got[i], 64 * std::sin(0.5) / MarginAttributes::kLeastSine, 0.5);
  }
  for (int i = 2; i < 4; ++i) {
    EXPECT_NEAR(logits[i], 64 * (-1 - 0.5 * std::sin(0.5)), 1e-4);
    EXPECT_EQ(got[i], 64);
  }
  EXPECT_TRUE(std::isnan(logits[4]));
  EXPECT_TRUE(std::isnan(got[4]));
}

}  // namespace
}  // namespace sluice::cpu
