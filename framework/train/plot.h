// Curves drawn in text, with braille dots: two columns and four rows of dots a character. Pure.
#ifndef SLUICE_FRAMEWORK_TRAIN_PLOT_H_
#define SLUICE_FRAMEWORK_TRAIN_PLOT_H_

#include <string>
#include <vector>

#include "absl/types/span.h"

namespace sluice {

struct PlotPoint {
  double x = 0, y = 0;
};

struct PlotOptions {
  int columns = 70, rows = 12;  // of characters, without the axes
  std::string x_name = "step";
};

// `curve` is drawn as a line through the means of its dot columns, `marks` as an o each on top of
// it. Values that are not finite are left out; nothing at all gives an empty text.
std::string DrawPlot(absl::Span<const PlotPoint> curve, absl::Span<const PlotPoint> marks,
                     const PlotOptions& options);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_PLOT_H_
