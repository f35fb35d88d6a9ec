// Maximum and mean over windows of images, and their gradients: a thread an element of the result,
// or a pack of channels where maxima are looked for, so that no two write one. All have the bits of
// the CPU. What a maximum's gradient goes by, where in its window each is, is found once for each
// window: found by every pixel of it, that took 1.29 ms of ResNet's [128, 112, 112, 64] in bf16 on
// an H100, which moves it in 0.14; a channel a thread, 5.9 on an H200.
#include <algorithm>
#include <limits>

#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/block.h"

namespace sluice::cuda {
namespace {

constexpr int kPoolThreads = 256;

// What of a window lies on the image along one dimension: its elements [begin, end), the first of
// them on pixel `pixel`.
struct OnImage {
  int begin, end, pixel;
};
// The places whose windows cover a pixel.
struct Covering {
  int begin, end;
};

// How a window moves along one dimension of an image, in numbers that divide without a call.
struct Axis {
  int pixels, places, window, stride, before;

  __device__ OnImage Clip(int place) const {
    const int start = place * stride - before, begin = start < 0 ? -start : 0;
    return {begin, window < pixels - start ? window : pixels - start, start + begin};
  }
  __device__ Covering PlacesOver(int pixel) const {
    const int at = pixel + before, first = at - window + 1;
    const int last = at / stride + 1;
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
  __device__ int64_t PixelAt(int64_t image, int row, int column) const {
    return ((image * height.pixels + row) * width.pixels + column) * channels;
  }
  __device__ int64_t PlaceAt(int64_t image, int p, int q) const {
    return ((image * height.places + p) * width.places + q) * channels;
  }
  __device__ float Divisor(const OnImage& rows, const OnImage& columns) const {
    return static_cast<float>(count_padding
                                  ? height.window * width.window
                                  : (rows.end - rows.begin) * (columns.end - columns.begin));
  }
};

// Where an element of an array [images, rows, columns, channels] stands, or the first of an item of
// `width` channels.
struct Element {
  int64_t image, channel;
  int row, column;
  __device__ Element(int64_t index, int rows, int columns, int64_t channels, int width = 1) {
    // A division of long numbers is a call, of four times as many instructions.
    if (index <= 0xffffffff && channels <= 0xffffffff) {
      Find(static_cast<uint32_t>(index), rows, columns, static_cast<uint32_t>(channels), width);
    } else {
      Find(static_cast<uint64_t>(index), rows, columns, static_cast<uint64_t>(channels), width);
    }
  }

 private:
  template <typename I>
  __device__ void Find(I index, int rows, int columns, I channels, int width) {
    const I items = channels / static_cast<I>(width);
    channel = static_cast<int64_t>(index % items) * width;
    index /= items;
    column = static_cast<int>(index % static_cast<I>(columns));
    index /= static_cast<I>(columns);
    row = static_cast<int>(index % static_cast<I>(rows));
    image = static_cast<int64_t>(index / static_cast<I>(rows));
  }
};

// fn(values, place) for the elements of a window that lie on the image, of `width` channels; places
// are numbered through the window.
template <int width, typename T, typename Fn>
__device__ void ForWindow(const Pool& pool, const T* x, int64_t image, const OnImage& rows,
                          const OnImage& columns, int64_t channel, const Fn& fn) {
  for (int k = rows.begin; k < rows.end; ++k) {
    const int64_t first = pool.PixelAt(image, rows.pixel + k - rows.begin, columns.pixel) + channel;
    for (int l = columns.begin; l < columns.end; ++l) {
      float values[width];
      Load(x + first + (l - columns.begin) * pool.channels, values);
      fn(values, k * pool.width.window + l);
    }
  }
}

template <int width, typename T>
__global__ void __launch_bounds__(kPoolThreads)
    MaxOfWindows(Pool pool, const T* x, T* y, int64_t n) {
  const int64_t i = ThreadIndex();
  if (i >= n) return;
  const Element at(i, pool.height.places, pool.width.places, pool.channels, width);
  const OnImage rows = pool.height.Clip(at.row), columns = pool.width.Clip(at.column);
  float max[width];
  Load(x + pool.PixelAt(at.image, rows.pixel, columns.pixel) + at.channel, max);
  ForWindow<width>(pool, x, at.image, rows, columns, at.channel,
                   [&](const float(&values)[width], int) {
                     for (int c = 0; c < width; ++c) max[c] = Max(max[c], values[c]);
                   });
  Store(max, y + i * width);
}

// Numbers of elements in a window, of `width` channels beside each other: bytes, four to a word, or
// words where windows are larger.
template <int width, typename Number>
__device__ void StoreNumbers(const int (&numbers)[width], Number* to) {
  if constexpr (sizeof(Number) == 1 && width % 4 == 0) {
    for (int w = 0; w < width / 4; ++w) {
      const int* const four = numbers + 4 * w;
      reinterpret_cast<uint32_t*>(to)[w] =
          static_cast<uint32_t>(four[0] | four[1] << 8 | four[2] << 16) |
          static_cast<uint32_t>(four[3]) << 24;
    }
  } else {
    for (int c = 0; c < width; ++c) to[c] = static_cast<Number>(numbers[c]);
  }
}
template <int width, typename Number>
__device__ void LoadNumbers(const Number* from, int (&numbers)[width]) {
  if constexpr (sizeof(Number) == 1 && width % 4 == 0) {
    for (int w = 0; w < width / 4; ++w) {
      const uint32_t word = reinterpret_cast<const uint32_t*>(from)[w];
      for (int c = 0; c < 4; ++c) numbers[4 * w + c] = static_cast<int>(word >> 8 * c & 0xff);
    }
  } else {
    for (int c = 0; c < width; ++c) numbers[c] = static_cast<int>(from[c]);
  }
}

// Of each window the first of the largest elements, or the first NaN.
template <int width, typename T, typename Number>
__global__ void __launch_bounds__(kPoolThreads)
    FindMaxima(Pool pool, const T* x, Number* numbers, int64_t n) {
  const int64_t i = ThreadIndex();
  if (i >= n) return;
  const Element at(i, pool.height.places, pool.width.places, pool.channels, width);
  const OnImage rows = pool.height.Clip(at.row), columns = pool.width.Clip(at.column);
  float max[width];
  Load(x + pool.PixelAt(at.image, rows.pixel, columns.pixel) + at.channel, max);
  int largest[width];
  for (int& number : largest) number = rows.begin * pool.width.window + columns.begin;
  ForWindow<width>(pool, x, at.image, rows, columns, at.channel,
                   [&](const float(&values)[width], int number) {
                     for (int c = 0; c < width; ++c) {
                       const bool larger = max[c] == max[c] && !(values[c] <= max[c]);
                       max[c] = larger ? values[c] : max[c];
                       largest[c] = larger ? number : largest[c];
                     }
                   });
  StoreNumbers(largest, numbers + i * width);
}

template <int width, typename T, typename Number>
__global__ void __launch_bounds__(kPoolThreads)
    MaxGradient(Pool pool, const Number* numbers, const T* dy, T* dx, int64_t n) {
  const int64_t i = ThreadIndex();
  if (i >= n) return;
  const Element at(i, pool.height.pixels, pool.width.pixels, pool.channels, width);
  const Covering down = pool.height.PlacesOver(at.row), across = pool.width.PlacesOver(at.column);
  float sum[width] = {};
  for (int p = down.begin; p < down.end; ++p) {
    const OnImage rows = pool.height.Clip(p);
    for (int q = across.begin; q < across.end; ++q) {
      const OnImage columns = pool.width.Clip(q);
      const int row = at.row - rows.pixel + rows.begin;
      const int number = row * pool.width.window + at.column - columns.pixel + columns.begin;
      const int64_t place = pool.PlaceAt(at.image, p, q) + at.channel;
      int largest[width];
      float slope[width];
      LoadNumbers(numbers + place, largest);
      Load(dy + place, slope);
      for (int c = 0; c < width; ++c) sum[c] = largest[c] == number ? sum[c] + slope[c] : sum[c];
    }
  }
  Store(sum, dx + i * width);
}

template <typename T>
__global__ void __launch_bounds__(kPoolThreads)
    MeanOfWindows(Pool pool, const T* x, T* y, int64_t n) {
  const int64_t i = ThreadIndex();
  if (i >= n) return;
  const Element at(i, pool.height.places, pool.width.places, pool.channels);
  const OnImage rows = pool.height.Clip(at.row), columns = pool.width.Clip(at.column);
  float sum = 0;
  ForWindow<1>(pool, x, at.image, rows, columns, at.channel,
               [&](const float(&value)[1], int) { sum = sum + value[0]; });
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
  for (int p = down.begin; p < down.end; ++p) {
    const OnImage rows = pool.height.Clip(p);
    for (int q = across.begin; q < across.end; ++q) {
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
  const auto axis = [&](int d, int64_t before) {
    return Axis{static_cast<int>(x[d]), static_cast<int>(y[d]), static_cast<int>(a.window[d - 1]),
                static_cast<int>(stride[d - 1]), static_cast<int>(before)};
  };
  const int64_t largest = std::max({x[1], x[2], a.window[0], a.window[1], stride[0], stride[1]});
  if (largest > std::numeric_limits<int>::max() / 4) return NoKernel(spec);
  return Pool{x[0], x[3], axis(1, sides.top), axis(2, sides.left), a.count_padding};
}

// kernel(pool, operands.., n): a thread for each of n elements of the last operand.
template <typename... P, typename... A>
absl::Status LaunchPool(const KernelContext& context, void (*kernel)(P...), const Pool& pool,
                        int64_t n, A... operands) {
  if (n == 0) return absl::OkStatus();
  return Launch(context, kernel, GridOf(n, kPoolThreads), pool, operands..., n);
}

// The same of two kernels, whose threads take packs of channels or elements.
template <typename T, typename... P, typename... A>
absl::Status LaunchPacks(const KernelContext& context, void (*of_packs)(P...),
                         void (*of_elements)(P...), const Pool& pool, int64_t n, A... operands) {
  if (pool.channels % kPack<T> == 0 && PackAligned(operands...)) {
    return LaunchPool(context, of_packs, pool, n / kPack<T>, operands...);
  }
  return LaunchPool(context, of_elements, pool, n, operands...);
}

template <typename T, typename Number>
PreparedKernel PrepareMaxGradient(const Pool& pool) {
  return MakeKernel(
      [pool](const KernelContext& context, const Operands& at) -> absl::Status {
        auto* const numbers = at.scratch<Number>();
        RETURN_IF_ERROR(LaunchPacks<T>(context, FindMaxima<kPack<T>, T, Number>,
                                       FindMaxima<1, T, Number>, pool, pool.of_places(),
                                       at.at<T>(0), numbers));
        const Number* const found = numbers;
        return LaunchPacks<T>(context, MaxGradient<kPack<T>, T, Number>, MaxGradient<1, T, Number>,
                              pool, pool.of_images(), found, at.at<T>(1), at.at<T>(2));
      },
      pool.of_places() * static_cast<int64_t>(sizeof(Number)));
}

}  // namespace

PreparedKernel PrepareMaxPool(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireAll(spec, dtype));
  ASSIGN_OR_RETURN(const Pool pool, PoolOf(spec, spec.inputs[0].local, spec.outputs[0].local));
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return MakeKernel([pool](const KernelContext& context, const Operands& at) {
      return LaunchPacks<T>(context, MaxOfWindows<kPack<T>, T>, MaxOfWindows<1, T>, pool,
                            pool.of_places(), at.at<T>(0), at.at<T>(1));
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
  const int64_t elements = int64_t{pool.height.window} * pool.width.window;
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    return elements <= 256 ? PrepareMaxGradient<T, uint8_t>(pool)
                           : PrepareMaxGradient<T, int32_t>(pool);
  });
}

}  // namespace sluice::cuda
