// How a window moves over an image, for the ops that have one: convolutions and pools. For the
// files of this package only.
#ifndef SLUICE_FRAMEWORK_OPS_WINDOW_H_
#define SLUICE_FRAMEWORK_OPS_WINDOW_H_

#include <algorithm>
#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/attributes/attributes.h"

namespace sluice {

// Along one of the two dimensions.
struct WindowAxis {
  int64_t size = 1, stride = 1, dilation = 1;
  int64_t before = 0, after = 0;  // padding

  int64_t Span() const { return (size - 1) * dilation + 1; }
  // How many places the window has on so many pixels; below 1 if it does not fit.
  int64_t Places(int64_t pixels) const {
    const int64_t room = pixels + before + after - Span();
    return room < 0 ? 0 : room / stride + 1;
  }
  // The pixel under its i-th element at a place; outside of the image in the padding.
  int64_t Pixel(int64_t place, int64_t i) const { return place * stride + i * dilation - before; }
};

struct Window {
  WindowAxis height, width;
};

// Errors say which attribute is not what it should be.
absl::StatusOr<Window> WindowOf(absl::string_view op, const Shape& size, const Shape& stride,
                                const Shape& padding, const Shape& dilation);

// fn(image pixel row, column, window row, column, place row, column) for every element of the
// window at every place that lies on the image.
template <typename F>
void ForEachTap(const Window& window, int64_t height, int64_t width, F&& fn) {
  const WindowAxis &v = window.height, &h = window.width;
  for (int64_t p = 0; p < v.Places(height); ++p) {
    for (int64_t q = 0; q < h.Places(width); ++q) {
      for (int64_t k = 0; k < v.size; ++k) {
        const int64_t row = v.Pixel(p, k);
        if (row < 0 || row >= height) continue;
        for (int64_t l = 0; l < h.size; ++l) {
          const int64_t column = h.Pixel(q, l);
          if (column >= 0 && column < width) fn(row, column, k, l, p, q);
        }
      }
    }
  }
}

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_OPS_WINDOW_H_
