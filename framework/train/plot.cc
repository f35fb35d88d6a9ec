#include "framework/train/plot.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace sluice {
namespace {

struct Frame {
  double x0 = std::numeric_limits<double>::infinity(), x1 = -x0, y0 = x0, y1 = -x0;
  void Hold(absl::Span<const PlotPoint> points) {
    for (const PlotPoint& point : points) {
      if (!std::isfinite(point.y)) continue;
      x0 = std::min(x0, point.x), x1 = std::max(x1, point.x);
      y0 = std::min(y0, point.y), y1 = std::max(y1, point.y);
    }
  }
  // Where a value lies among `count` places; the middle where all values are equal.
  static int Place(double value, double low, double high, int count) {
    if (!(high > low)) return (count - 1) / 2;
    return std::clamp(static_cast<int>(std::lround((value - low) / (high - low) * (count - 1))), 0,
                      count - 1);
  }
};

std::string Utf8(uint32_t code) {
  return {static_cast<char>(0xE0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

// Bits of the dots of a braille character, by row and column within it.
constexpr uint8_t kDots[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};

class Canvas {
 public:
  explicit Canvas(const PlotOptions& options)
      : columns_(options.columns), rows_(options.rows), cells_(columns_ * rows_) {}
  int width() const { return 2 * columns_; }
  int height() const { return 4 * rows_; }
  void Dot(int x, int y) {  // y grows upwards
    const int row = height() - 1 - y;
    cells_[row / 4 * columns_ + x / 2] |= kDots[row % 4][x % 2];
  }
  void Mark(int x, int y) { cells_[(height() - 1 - y) / 4 * columns_ + x / 2] = kMark; }
  std::string Row(int row) const {
    std::string text;
    for (int i = 0; i < columns_; ++i) {
      const uint32_t cell = cells_[row * columns_ + i];
      text += cell == kMark ? "o" : cell == 0 ? " " : Utf8(0x2800 + cell);
    }
    while (!text.empty() && text.back() == ' ') text.pop_back();
    return text;
  }

 private:
  static constexpr uint32_t kMark = 0x100;
  int columns_, rows_;
  std::vector<uint32_t> cells_;
};

void DrawCurve(absl::Span<const PlotPoint> curve, const Frame& frame, Canvas* canvas) {
  std::vector<double> sums(canvas->width(), 0);
  std::vector<int> counts(canvas->width(), 0);
  for (const PlotPoint& point : curve) {
    if (!std::isfinite(point.y)) continue;
    const int x = Frame::Place(point.x, frame.x0, frame.x1, canvas->width());
    sums[x] += point.y;
    ++counts[x];
  }
  int last_x = -1, last_y = 0;
  for (int x = 0; x < canvas->width(); ++x) {
    if (counts[x] == 0) continue;
    const int y = Frame::Place(sums[x] / counts[x], frame.y0, frame.y1, canvas->height());
    if (last_x < 0) canvas->Dot(x, y);
    // The line from the last point, as one run of dots a column.
    for (int i = last_x + 1; last_x >= 0 && i <= x; ++i) {
      const int from = last_y + (y - last_y) * (i - 1 - last_x) / (x - last_x);
      const int to = last_y + (y - last_y) * (i - last_x) / (x - last_x);
      for (int j = std::min(from, to); j <= std::max(from, to); ++j) canvas->Dot(i, j);
    }
    last_x = x, last_y = y;
  }
}

}  // namespace

std::string DrawPlot(absl::Span<const PlotPoint> curve, absl::Span<const PlotPoint> marks,
                     const PlotOptions& options) {
  Frame frame;
  frame.Hold(curve);
  frame.Hold(marks);
  if (!(frame.x0 <= frame.x1)) return "";
  if (frame.y0 == frame.y1) frame.y0 -= 0.5, frame.y1 += 0.5;
  Canvas canvas(options);
  DrawCurve(curve, frame, &canvas);
  for (const PlotPoint& point : marks) {
    if (!std::isfinite(point.y)) continue;
    canvas.Mark(Frame::Place(point.x, frame.x0, frame.x1, canvas.width()),
                Frame::Place(point.y, frame.y0, frame.y1, canvas.height()));
  }
  std::string out;
  for (int row = 0; row < options.rows; ++row) {
    const bool labelled = row % 3 == 0 || row == options.rows - 1;
    const double y = frame.y1 - (frame.y1 - frame.y0) * row / std::max(1, options.rows - 1);
    absl::StrAppend(&out, labelled ? absl::StrFormat("%8.3f ┤", y) : std::string(9, ' ') + "│",
                    canvas.Row(row), "\n");
  }
  absl::StrAppend(&out, std::string(9, ' '), "└");
  for (int i = 0; i < options.columns; ++i) absl::StrAppend(&out, "─");
  const std::string left = absl::StrFormat("%g", frame.x0);
  const std::string right = absl::StrFormat("%s %g", options.x_name, frame.x1);
  const int gap = options.columns - static_cast<int>(left.size() + right.size());
  absl::StrAppend(&out, "\n", std::string(10, ' '), left, std::string(std::max(1, gap), ' '), right,
                  "\n");
  return out;
}

}  // namespace sluice
