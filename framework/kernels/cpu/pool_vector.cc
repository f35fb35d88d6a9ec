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

// The places whose windows cover a pixel, as it moves on by one; begins at {0, 0}.
struct Covering {
  int64_t begin, end;
  SLUICE_INLINE void MoveTo(const PoolAxis& axis, int64_t pixel) {
    const int64_t at = pixel + axis.before;
    while (end < axis.places && end * axis.stride <= at) ++end;
    while (begin < end && begin * axis.stride + axis.window <= at) ++begin;
  }
};

// fn(first pixel, how many) for each row of the window at a place that lies on the image.
template <typename F>
SLUICE_INLINE void ForRows(const PoolImage& image, const OnImage& rows, const OnImage& columns,
                           F&& fn) {
  for (int64_t k = rows.begin; k < rows.end; ++k) {
    const int64_t row = rows.pixel + k - rows.begin;
    fn(row * image.width.pixels + columns.pixel, columns.end - columns.begin);
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

// fn(channel, lanes, groups): as ForLanes, but of `groups` registers side by side, so that loops
// over the pixels of a window are gone through once for all of them.
#ifdef __AVX512F__
constexpr int kGroups = 4;
#else
constexpr int kGroups = 2;
#endif
template <int n>
struct Groups {
  static constexpr int kCount = n;
};
template <typename Fn>
SLUICE_INLINE void ForGroups(int64_t channels, Fn&& fn) {
  int64_t c = 0;
  for (; c + kGroups * kLanes <= channels; c += kGroups * kLanes) fn(c, Whole(), Groups<kGroups>());
  ForLanes(channels - c, [&](int64_t i, auto lanes) { fn(c + i, lanes, Groups<1>()); });
}

// What the row of places below will read is fetched, here and in the gradient, since processors do
// not see that rows of an image follow each other.
template <typename T>
void MaxPool(const PoolImage& image, const T* x, T* y) {
  const int64_t stride = image.stride, below = image.height.stride * image.width.pixels * stride;
  ForPlaces(image, [&](int64_t place, const OnImage& rows, const OnImage& columns) {
    const T* const first = x + (rows.pixel * image.width.pixels + columns.pixel) * stride;
    ForGroups(image.channels, [&](int64_t c, auto lanes, auto groups) {
      F max[groups.kCount];
#pragma GCC unroll 4
      for (int g = 0; g < groups.kCount; ++g) max[g] = lanes(first + c + g * kLanes);
      ForRows(image, rows, columns, [&](int64_t pixel, int64_t count) {
        const T* from = x + pixel * stride + c;
        for (int64_t i = 0; i < count; ++i, from += stride) {
#pragma GCC unroll 4
          for (int g = 0; g < groups.kCount; ++g) {
            _mm_prefetch(from + below + g * kLanes, _MM_HINT_T0);
            max[g] = Max(max[g], lanes(from + g * kLanes));
          }
        }
      });
#pragma GCC unroll 4
      for (int g = 0; g < groups.kCount; ++g) lanes(y + place * stride + c + g * kLanes, max[g]);
    });
  });
}

// To each channel the number, in the image, of the pixel of a window that is the first of the
// largest, or the first NaN. No step waits for the comparison of the one before: after a NaN `max`
// means nothing, and all stays.
template <typename T, typename Lanes, int groups>
SLUICE_INLINE void PixelsOfMax(const PoolImage& image, const T* x, const OnImage& rows,
                               const OnImage& columns, Lanes lanes, Groups<groups>, int32_t* to) {
  const int64_t below = image.height.stride * image.width.pixels * image.stride;
  const int64_t first = rows.pixel * image.width.pixels + columns.pixel;
  F max[groups];
  I best[groups];
  M nan[groups];
#pragma GCC unroll 4
  for (int g = 0; g < groups; ++g) {
    max[g] = lanes(x + first * image.stride + g * kLanes);
    best[g] = SplatI(static_cast<int32_t>(first));
    nan[g] = IsNan(max[g]);
  }
  ForRows(image, rows, columns, [&](int64_t pixel, int64_t count) {
    const T* from = x + pixel * image.stride;
    I at = SplatI(static_cast<int32_t>(pixel));
    for (int64_t i = 0; i < count; ++i, from += image.stride) {
#pragma GCC unroll 4
      for (int g = 0; g < groups; ++g) {
        _mm_prefetch(from + below + g * kLanes, _MM_HINT_T0);
        const F value = lanes(from + g * kLanes);
        const M stays = Or(nan[g], AtMost(value, max[g]));
        best[g] = Bits(Select(stays, FromBits(best[g]), FromBits(at)));
        max[g] = MaxOrSecond(max[g], value);
        nan[g] = Or(nan[g], IsNan(value));
      }
      at = at + SplatI(1);
    }
  });
#pragma GCC unroll 4
  for (int g = 0; g < groups; ++g) StoreI(to + g * kLanes, best[g]);
}

// For the places that cover a row of pixels, and each channel, the pixel of the maximum: as many
// rows of places as can cover a pixel, of kPoolChannels a place; pool.cc reckons its size likewise.
struct Ring {
  int32_t* first;
  int64_t rows, row_elements;
  SLUICE_INLINE int32_t* RowOf(int64_t p) const { return first + p % rows * row_elements; }
  // The same element of the next row of places.
  SLUICE_INLINE const int32_t* Next(const int32_t* at) const {
    at += row_elements;
    return at < first + rows * row_elements ? at : at - rows * row_elements;
  }
};

// The gradient of a row of pixels: each gathers from the places whose windows cover it, in their
// order, those of which it is the maximum.
template <typename T>
SLUICE_INLINE void GatherRow(const PoolImage& image, int64_t row, const Covering& down,
                             const Ring& ring, const T* dy, T* dx) {
  const PoolAxis& width = image.width;
  const int64_t row_slopes = width.places * image.stride;
  const int32_t* const first = ring.RowOf(down.begin);
  Covering across = {0, 0};
  for (int64_t column = 0; column < width.pixels; ++column) {
    across.MoveTo(width, column);
    const int64_t pixel = row * width.pixels + column;
    const I mine = SplatI(static_cast<int32_t>(pixel));
    ForGroups(image.channels, [&](int64_t c, auto lanes, auto groups) {
      F sum[groups.kCount];
#pragma GCC unroll 4
      for (int g = 0; g < groups.kCount; ++g) {
        Prefetch(dx + pixel * image.stride + c + g * kLanes);
        sum[g] = Splat(0);
      }
      const int32_t* best = first + c;
      const T* slopes = dy + down.begin * row_slopes + c;
      for (int64_t p = down.begin; p < down.end; ++p) {
        for (int64_t q = across.begin; q < across.end; ++q) {
#pragma GCC unroll 4
          for (int g = 0; g < groups.kCount; ++g) {
            const M largest = Equal(LoadI(best + q * kPoolChannels + g * kLanes), mine);
            const F slope = Loaded(lanes(slopes + q * image.stride + g * kLanes));
            sum[g] = sum[g] + Select(largest, slope, Splat(0));
          }
        }
        slopes += row_slopes;
        best = ring.Next(best);
      }
#pragma GCC unroll 4
      for (int g = 0; g < groups.kCount; ++g) {
        lanes(dx + pixel * image.stride + c + g * kLanes, sum[g]);
      }
    });
  }
}

template <typename T>
void MaxPoolGradient(const PoolImage& image, const T* x, const T* dy, T* dx, int32_t* scratch) {
  const PoolAxis &height = image.height, &width = image.width;
  const Ring ring = {scratch, (height.window + height.stride - 1) / height.stride,
                     width.places * kPoolChannels};
  Covering down = {0, 0};
  int64_t done = 0;
  for (int64_t row = 0; row < height.pixels; ++row) {
    down.MoveTo(height, row);
    for (; done < down.end; ++done) {
      const OnImage rows = Clip(height, done);
      int32_t* const best = ring.RowOf(done);
      for (int64_t q = 0; q < width.places; ++q) {
        const OnImage columns = Clip(width, q);
        ForGroups(image.channels, [&](int64_t c, auto lanes, auto groups) {
          PixelsOfMax(image, x + c, rows, columns, lanes, groups, best + q * kPoolChannels + c);
        });
      }
    }
    GatherRow(image, row, down, ring, dy, dx);
  }
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
      ForRows(image, rows, columns, [&](int64_t pixel, int64_t count) {
        for (int64_t i = 0; i < count; ++i) sum = sum + lanes(x + (pixel + i) * stride + c);
      });
      lanes(y + place * stride + c, sum / divisor);
    });
  });
}

template <typename T>
void AveragePoolGradient(const PoolImage& image, const T* dy, T* dx) {
  const int64_t stride = image.stride;
  Covering down = {0, 0};
  for (int64_t row = 0; row < image.height.pixels; ++row) {
    down.MoveTo(image.height, row);
    Covering across = {0, 0};
    for (int64_t column = 0; column < image.width.pixels; ++column) {
      across.MoveTo(image.width, column);
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
