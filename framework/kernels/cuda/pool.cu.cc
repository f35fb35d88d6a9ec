// Maximum and mean over windows of images, and their gradients: a thread an element of the result,
// so that no two write one. All have the bits of the CPU.
#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/block.h"

namespace sluice::cuda {
namespace {

constexpr int kPoolThreads = 256;

// What of a window lies on the image along one dimension: its elements [begin, end), the first of
// them on pixel `pixel`.
struct OnImage {
  int64_t begin, end, pixel;
};
// The places whose windows cover a pixel.
struct Covering {
  int64_t begin, end;
};

// How a window moves along one dimension of an image.
struct Axis {
  int64_t pixels, places, window, stride, before;

  __device__ OnImage Clip(int64_t place) const {
    const int64_t start = place * stride - before, begin = start < 0 ? -start : 0;
    return {begin, window < pixels - start ? window : pixels - start, start + begin};
  }
  __device__ Covering PlacesOver(int64_t pixel) const {
    const int64_t at = pixel + before, first = at - window + 1;
    const int64_t last = at / stride + 1;
    return {first <= 0 ? 0 : (first + stride - 1) / stride, last < places ? last : places};
  }
};

// Images [images, height, width, channels] and places likewise.
struct Pool {
  int64_t images, channels;
  Axis height, width;
  bool count_padding;

  int64_t of_images() const { return images * height.pixels * width.pixels * channels; }
  int64_t of_places() const { return images * height.places * width.places * channels; }
  __device__ int64_t PixelAt(int64_t image, int64_t row, int64_t column) const {
    return ((image * height.pixels + row) * width.pixels + column) * channels;
  }
  __device__ int64_t PlaceAt(int64_t image, int64_t p, int64_t q) const {
    return ((image * height.places + p) * width.places + q) * channels;
  }
  __device__ float Divisor(const OnImage& rows, const OnImage& columns) const {
    return static_cast<float>(count_padding
                                  ? height.window * width.window
                                  : (rows.end - rows.begin) * (columns.end - columns.begin));
  }
};

// Where an element of an array [images, rows, columns, channels] stands.
struct Element {
  int64_t image, row, column, channel;
  __device__ Element(int64_t index, int64_t rows, int64_t columns, int64_t channels) {
    channel = index % channels;
    index /= channels;
    column = index % columns;
    index /= columns;
    row = index % rows;
    image = index / rows;
  }
};

// fn(value, row, column) for the elements of a window that lie on the image, counted in the window.
template <typename T, typename Fn>
__device__ void ForWindow(const Pool& pool, const T* x, int64_t image, const OnImage& rows,
                          const OnImage& columns, int64_t channel, const Fn& fn) {
  for (int64_t k = rows.begin; k < rows.end; ++k) {
    const int64_t first = pool.PixelAt(image, rows.pixel + k - rows.begin, columns.pixel) + channel;
    for (int64_t l = columns.begin; l < columns.end; ++l) {
      fn(Widen(x[first + (l - columns.begin) * pool.channels]), k, l);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kPoolThreads)
    MaxOfWindows(Pool pool, const T* x, T* y, int64_t n) {
  const int64_t i = ThreadIndex();
  if (i >= n) return;
  const Element at(i, pool.height.places, pool.width.places, pool.channels);
  const OnImage rows = pool.height.Clip(at.row), columns = pool.width.Clip(at.column);
  float max = Widen(x[pool.PixelAt(at.image, rows.pixel, columns.pixel) + at.channel]);
  ForWindow(pool, x, at.image, rows, columns, at.channel,
            [&](float value, int64_t, int64_t) { max = Max(max, value); });
  Narrow(max, y + i);
}

// Whether the element (row, column) of a window is the first of the largest, or the first NaN.
template <typename T>
__device__ bool IsMaxOf(const Pool& pool, const T* x, int64_t image, const OnImage& rows,
                        const OnImage& columns, int64_t channel, int64_t row, int64_t column) {
  float max = Widen(x[pool.PixelAt(image, rows.pixel, columns.pixel) + channel]);
  int64_t best_row = rows.begin, best_column = columns.begin;
  ForWindow(pool, x, image, rows, columns, channel, [&](float value, int64_t k, int64_t l) {
    if (max != max || value <= max) return;
    max = value;
    best_row = k;
    best_column = l;
  });
  return best_row == row && best_column == column;
}

// A thread finds the maxima of all windows over its pixel: they are few, and lie in the nearest
// cache.
template <typename T>
__global__ void __launch_bounds__(kPoolThreads)
    MaxGradient(Pool pool, const T* x, const T* dy, T* dx, int64_t n) {
  const int64_t i = ThreadIndex();
  if (i >= n) return;
  const Element at(i, pool.height.pixels, pool.width.pixels, pool.channels);
  const Covering down = pool.height.PlacesOver(at.row), across = pool.width.PlacesOver(at.column);
  float sum = 0;
  for (int64_t p = down.begin; p < down.end; ++p) {
    const OnImage rows = pool.height.Clip(p);
    for (int64_t q = across.begin; q < across.end; ++q) {
      const OnImage columns = pool.width.Clip(q);
      const int64_t row = at.row - rows.pixel + rows.begin;
      const int64_t column = at.column - columns.pixel + columns.begin;
      if (!IsMaxOf(pool, x, at.image, rows, columns, at.channel, row, column)) continue;
      sum = sum + Widen(dy[pool.PlaceAt(at.image, p, q) + at.channel]);
    }
  }
  Narrow(sum, dx + i);
}

template <typename T>
__global__ void __launch_bounds__(kPoolThreads)
    MeanOfWindows(Pool pool, const T* x, T* y, int64_t n) {
  const int64_t i = ThreadIndex();
  if (i >= n) return;
  const Element at(i, pool.height.places, pool.width.places, pool.channels);
  const OnImage rows = pool.height.Clip(at.row), columns = pool.width.Clip(at.column);
  float sum = 0;
  ForWindow(pool, x, at.image, rows, columns, at.channel,
            [&](float value, int64_t, int64_t) { sum = sum + value; });
  Narrow(sum / pool.Divisor(rows, columns), y + i);
}

template <typename T>
__global__ void __launch_bounds__(kPoolThreads)
    MeanGradient(Pool pool, const T* dy, T* dx, int64_t n) {
  const int64_t i = ThreadIndex();
  if (i >= n) return;
  const Element at(i, pool.height.pixels, pool.width.pixels, pool.channels);
  const Covering down = pool.height.PlacesOver(at.row), across = pool.width.PlacesOver(at.column);
  float sum = 0;
  for (int64_t p = down.begin; p < down.end; ++p) {
    const OnImage rows = pool.height.Clip(p);
    for (int64_t q = across.begin; q < across.end; ++q) {
      const float slope = Widen(dy[pool.PlaceAt(at.image, p, q) + at.channel]);
      sum = sum + slope / pool.Divisor(rows, pool.width.Clip(q));
    }
  }
  Narrow(sum, dx + i);
}

// Over the shards of images and of places.
absl::StatusOr<Pool> PoolOf(const KernelSpec& spec, const Shape& x, const Shape& y) {
  ASSIGN_OR_RETURN(const PoolAttributes a, ParseAttributes<PoolAttributes>(spec.attributes));
  const PaddingSides sides = SidesOf(a.padding);
  const Shape& stride = a.stride_or_window();
  return Pool{x[0],
              x[3],
              {x[1], y[1], a.window[0], stride[0], sides.top},
              {x[2], y[2], a.window[1], stride[1], sides.left},
              a.count_padding};
}

// kernel(pool, operands.., n): a thread for each of n elements of the last operand.
template <typename... P, typename... A>
absl::Status LaunchPool(const KernelContext& context, void (*kernel)(P...), const Pool& pool,
                        int64_t n, A... operands) {
  if (n == 0) return absl::OkStatus();
  return Launch(context, kernel, GridOf(n, kPoolThreads), pool, operands..., n);
}

}  // namespace

PreparedKernel PrepareMaxPool(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireAll(spec, dtype));
  ASSIGN_OR_RETURN(const Pool pool, PoolOf(spec, spec.inputs[0].local, spec.outputs[0].local));
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([pool](const KernelContext& context, const Operands& at) {
      return LaunchPool(context, MaxOfWindows<T>, pool, pool.of_places(), at.at<T>(0), at.at<T>(1));
    });
  });
}

PreparedKernel PrepareAveragePool(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireAll(spec, dtype));
  ASSIGN_OR_RETURN(const Pool pool, PoolOf(spec, spec.inputs[0].local, spec.outputs[0].local));
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([pool](const KernelContext& context, const Operands& at) {
      return LaunchPool(context, MeanOfWindows<T>, pool, pool.of_places(), at.at<T>(0),
                        at.at<T>(1));
    });
  });
}

PreparedKernel PrepareAveragePoolGradient(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireAll(spec, dtype));
  ASSIGN_OR_RETURN(const Pool pool, PoolOf(spec, spec.outputs[0].local, spec.inputs[0].local));
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([pool](const KernelContext& context, const Operands& at) {
      return LaunchPool(context, MeanGradient<T>, pool, pool.of_images(), at.at<T>(0), at.at<T>(1));
    });
  });
}

PreparedKernel PrepareMaxPoolGradient(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireAll(spec, dtype));
  ASSIGN_OR_RETURN(const Pool pool, PoolOf(spec, spec.inputs[0].local, spec.inputs[1].local));
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([pool](const KernelContext& context, const Operands& at) {
      return LaunchPool(context, MaxGradient<T>, pool, pool.of_images(), at.at<T>(0), at.at<T>(1),
                        at.at<T>(2));
    });
  });
}

}  // namespace sluice::cuda
