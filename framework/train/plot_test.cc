#include "framework/train/plot.h"

#include <cmath>

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(PlotTest, FallingCurveWithMarks) {
  std::vector<PlotPoint> curve;
  for (int i = 0; i <= 400; ++i) curve.push_back({1.0 * i, 1.5 + 4 * std::exp(-i / 80.0)});
  const PlotOptions options = {.columns = 40, .rows = 8};
  EXPECT_EQ(DrawPlot(curve, {{0, 5.5}, {200, 2.0}, {400, 1.7}}, options), R"(   5.500 ┤o⡄
         │ ⠙⣆
         │  ⠈⢧⡀
   3.797 ┤    ⠹⣄
         │     ⠈⠳⢤⡀
         │        ⠙⠲⢤⣀
   2.095 ┤           ⠈⠙⠲⠤⣄⣀⡀  o
   1.527 ┤                 ⠉⠉⠙⠒⠒⠒⠦⠤⠤⠤⠤⠤⠤⣄⣀⣀⣀⣀⣀⣀⣀⣀o
         └────────────────────────────────────────
          0                               step 400
)");
}

TEST(PlotTest, OneValueIsInTheMiddle) {
  EXPECT_EQ(DrawPlot({{3, 2}}, {}, {.columns = 8, .rows = 3}), R"(   2.500 ┤
         │   ⠐
   1.500 ┤
         └────────
          3 step 3
)");
}

TEST(PlotTest, NothingIsNothing) {
  EXPECT_EQ(DrawPlot({}, {}, {}), "");
  EXPECT_EQ(DrawPlot({{1, std::nan("")}}, {}, {}), "");
}

}  // namespace
}  // namespace sluice
