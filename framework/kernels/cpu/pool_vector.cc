#include "framework/kernels/cpu/lanes.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu::SLUICE_ISA {
namespace {

SLUICE_INLINE int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }
SLUICE_INLINE int64_t Most(int64_t a, int64_t b) { return a > b ? a : b; }

// What of a window lies on the image: its elements [begin, end), the first of them on pixel
// `pixel`.
struct OnImage {
  int64_t begin, end, pixel;
};
SLUICE_INLINE OnImage Clip(const PoolAxis& axis, int64_t place) {
  const int64_t start = place * axis.stride - axis.before;
  const int64_t begin = Most(0, -start);
  return {begin, Least(axis.window, axis.pixels - start), start + begin};
}

// The places whose windows cover a pixel.
struct Covering {
  int64_t begin, end;
};
SLUICE_INLINE Covering PlacesOver(const PoolAxis& axis, int64_t pixel) {
  const int64_t at = pixel + axis.before, first = at - axis.window + 1;
  const int64_t begin = first <= 0 ? 0 : (first + axis.stride - 1) / axis.stride;
  return {begin, Least(axis.places, at / axis.stride + 1)};
}

// fn(first pixel of the row of the image, element of the window, how many) for each row of the
// window at a place that lies on the image.
template <typename F>
SLUICE_INLINE void ForRows(const PoolImage& image, const OnImage& rows, const OnImage& columns,
                           F&& fn) {
  for (int64_t k = rows.begin; k < rows.end; ++k) {
    const int64_t row = rows.pixel + k - rows.begin;
    fn(row * image.width.pixels + columns.pixel, k * image.width.window + columns.begin,
       columns.end - columns.begin);
  }
}

// fn(p, q, the place's flat index, its rows, its columns)
template <typename F>
SLUICE_INLINE void ForPlaces(const PoolImage& image, F&& fn) {
  for (int64_t p = 0; p < image.height.places; ++p) {
    const OnImage rows = Clip(image.height, p);
    for (int64_t q = 0; q < image.width.places; ++q) {
      fn(p * image.width.places + q, rows, Clip(image.width, q));
    }
  }
}

template <typename T>
void MaxPool(const PoolImage& image, const T* x, T* y) {
  const int64_t stride = image.stride;
  ForPlaces(image, [&](int64_t place, const OnImage& rows, const OnImage& columns) {
    const T* const first = x + (rows.pixel * image.width.pixels + columns.pixel) * stride;
    ForLanes(image.channels, [&](int64_t c, auto lanes) {
      F max = lanes(first + c);
      ForRows(image, rows, columns, [&](int64_t pixel, int64_t, int64_t count) {
        for (int64_t i = 0; i < count; ++i) max = Max(max, lanes(x + (pixel + i) * stride + c));
      });
      lanes(y + place * stride + c, max);
    });
  });
}

// Which element of the window is the first of the largest, or the first NaN: a whole number.
template <typename T, typename Lanes>
SLUICE_INLINE F ElementOfMax(const PoolImage& image, const T* x, const OnImage& rows,
                             const OnImage& columns, Lanes lanes) {
  F max = lanes(x + (rows.pixel * image.width.pixels + columns.pixel) * image.stride);
  F best = Splat(static_cast<float>(rows.begin * image.width.window + columns.begin));
  ForRows(image, rows, columns, [&](int64_t pixel, int64_t element, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const F value = lanes(x + (pixel + i) * image.stride);
      const M stays = Or(IsNan(max), AtMost(value, max));
      max = Select(stays, max, value);
      best = Select(stays, best, Splat(static_cast<float>(element + i)));
    }
  });
  return best;
}

// Sums are f32 and lie in a ring of as many rows as the window has, of kPoolChannels a pixel; a row
// leaves it, to dx, when no later window reaches it.
template <typename T>
void MaxPoolGradient(const PoolImage& image, const T* x, const T* dy, T* dx, float* ring) {
  const int64_t width = image.width.pixels, stride = image.stride, rows_held = image.height.window;
  const int64_t row_sums = width * kPoolChannels;
  const auto sums_of = [&](int64_t row) { return ring + row % rows_held * row_sums; };
  const auto clear = [&](float* sums) {
    ForLanes(row_sums, [&](int64_t i, auto lanes) { lanes(sums + i, Splat(0)); });
  };
  for (int64_t row = 0; row < rows_held; ++row) clear(sums_of(row));
  int64_t done = 0;
  const auto finish_rows = [&](int64_t end) {
    for (; done < end; ++done) {
      float* const sums = sums_of(done);
      for (int64_t i = 0; i < width; ++i) {
        ForLanes(image.channels, [&](int64_t c, auto lanes) {
          lanes(dx + (done * width + i) * stride + c, lanes(sums + i * kPoolChannels + c));
        });
      }
      clear(sums);
    }
  };
  for (int64_t p = 0; p < image.height.places; ++p) {
    const OnImage rows = Clip(image.height, p);
    finish_rows(rows.pixel);
    for (int64_t q = 0; q < image.width.places; ++q) {
      const OnImage columns = Clip(image.width, q);
      ForLanes(image.channels, [&](int64_t c, auto lanes) {
        const F best = ElementOfMax(image, x + c, rows, columns, lanes);
        const F slope = lanes(dy + (p * image.width.places + q) * stride + c);
        for (int64_t k = rows.begin; k < rows.end; ++k) {
          float* const sums = sums_of(rows.pixel + k - rows.begin);
          for (int64_t l = columns.begin; l < columns.end; ++l) {
            float* const at = sums + (columns.pixel + l - columns.begin) * kPoolChannels + c;
            const F element = Splat(static_cast<float>(k * image.width.window + l));
            const M apart = Or(Less(best, element), Less(element, best));
            lanes(at, lanes(at) + Select(apart, Splat(0), slope));
          }
        }
      });
    }
  }
  finish_rows(image.height.pixels);
}

SLUICE_INLINE float Divisor(const PoolImage& image, const OnImage& rows, const OnImage& columns) {
  return static_cast<float>(image.count_padding
                                ? image.height.window * image.width.window
                                : (rows.end - rows.begin) * (columns.end - columns.begin));
}

template <typename T>
void AveragePool(const PoolImage& image, const T* x, T* y) {
  const int64_t stride = image.stride;
  ForPlaces(image, [&](int64_t place, const OnImage& rows, const OnImage& columns) {
    const F divisor = Splat(Divisor(image, rows, columns));
    ForLanes(image.channels, [&](int64_t c, auto lanes) {
      F sum = Splat(0);
      ForRows(image, rows, columns, [&](int64_t pixel, int64_t, int64_t count) {
        for (int64_t i = 0; i < count; ++i) sum = sum + lanes(x + (pixel + i) * stride + c);
      });
      lanes(y + place * stride + c, sum / divisor);
    });
  });
}

template <typename T>
void AveragePoolGradient(const PoolImage& image, const T* dy, T* dx) {
  const int64_t stride = image.stride;
  for (int64_t row = 0; row < image.height.pixels; ++row) {
    const Covering down = PlacesOver(image.height, row);
    for (int64_t column = 0; column < image.width.pixels; ++column) {
      const Covering across = PlacesOver(image.width, column);
      T* const to = dx + (row * image.width.pixels + column) * stride;
      ForLanes(image.channels, [&](int64_t c, auto lanes) {
        F sum = Splat(0);
        for (int64_t p = down.begin; p < down.end; ++p) {
          const OnImage rows = Clip(image.height, p);
          for (int64_t q = across.begin; q < across.end; ++q) {
            const F slope = lanes(dy + (p * image.width.places + q) * stride + c);
            sum = sum + slope / Splat(Divisor(image, rows, Clip(image.width, q)));
          }
        }
        lanes(to + c, sum);
      });
    }
  }
}

template <typename T>
constexpr PoolVector<T> LoopsOf() {
  return {MaxPool<T>, MaxPoolGradient<T>, AveragePool<T>, AveragePoolGradient<T>};
}

}  // namespace

extern const PoolVector<float> kPool = LoopsOf<float>();
extern const PoolVector<BFloat16> kPoolBf16 = LoopsOf<BFloat16>();

}  // namespace sluice::cpu::SLUICE_ISA
