// Maximum and mean over windows of images, and their gradients: threads take images, of some
// channels.
#include "framework/kernels/cpu/all_kernels.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu {
namespace {

// The op bounds scratch by as many (ops/pool.cc).
constexpr int64_t kMostWorkers = 16;

// A pool over the shards of x and y, cut into pieces by size alone: an image, and kPoolChannels of
// its channels.
class Pieces {
 public:
  static absl::StatusOr<Pieces> Of(const KernelSpec& spec, const Shape& x, const Shape& y) {
    ASSIGN_OR_RETURN(const PoolAttributes a, ParseAttributes<PoolAttributes>(spec.attributes));
    const PaddingSides sides = SidesOf(a.padding);
    const Shape& stride = a.stride_or_window();
    Pieces made;
    made.image_ = {{x[1], y[1], a.window[0], stride[0], sides.top},
                   {x[2], y[2], a.window[1], stride[1], sides.left},
                   kPoolChannels,
                   x[3],
                   a.count_padding};
    made.images_ = x[0];
    made.of_image_ = (x[3] + kPoolChannels - 1) / kPoolChannels;
    const int64_t pieces = made.images_ * made.of_image_;
    const int64_t taps = y[1] * y[2] * a.window[0] * a.window[1] * kPoolChannels;
    const int64_t worthwhile = std::max<int64_t>(1, pieces * taps / kCheapGrain);
    made.workers_ =
        std::min({static_cast<int64_t>(spec.threads), pieces, worthwhile, kMostWorkers});
    return made;
  }

  // fn(image, where its first element of x lies, that of y, worker) for every piece.
  template <typename F>
  void ForEach(const KernelContext& context, F&& fn) const {
    const auto work = [&](int64_t worker) {
      const Range mine = Cut({0, images_ * of_image_}, workers_, worker);
      for (int64_t i = mine.begin; i < mine.end; ++i) {
        const int64_t n = i / of_image_, channel = i % of_image_ * kPoolChannels;
        PoolImage image = image_;
        image.channels = std::min(kPoolChannels, image.stride - channel);
        fn(image, n * image.height.pixels * image.width.pixels * image.stride + channel,
           n * image.height.places * image.width.places * image.stride + channel, worker);
      }
    };
    ForEachPiece(context, workers_, work);
  }

  // Elements of the scratch of a worker of max_gradient.
  int64_t ScratchOfWorker() const {
    const PoolAxis& height = image_.height;
    return (height.window + height.stride - 1) / height.stride * image_.width.places *
           kPoolChannels;
  }
  int64_t workers() const { return workers_; }

 private:
  Pieces() = default;
  PoolImage image_ = {};
  int64_t images_ = 0, of_image_ = 0, workers_ = 1;
};

// The loop that a table of loops has at `member`, from x to y; or, if it is a gradient, from y to
// x.
template <bool gradient, typename Loop>
PreparedKernel PrepareOneToOne(const KernelSpec& spec, Loop&& loop) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireAll(spec, dtype));
  const Shape &from = spec.inputs[0].local, &to = spec.outputs[0].local;
  ASSIGN_OR_RETURN(const Pieces pieces,
                   Pieces::Of(spec, gradient ? to : from, gradient ? from : to));
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    const auto run = loop(Vectors().of<T>().pool);
    return MakeKernel([pieces, run](const KernelContext& context, const Operands& at) {
      const T* a = at.at<T>(0);
      T* b = at.at<T>(1);
      pieces.ForEach(context, [&](const PoolImage& image, int64_t x, int64_t y, int64_t) {
        run(image, a + (gradient ? y : x), b + (gradient ? x : y));
      });
    });
  });
}

}  // namespace

PreparedKernel PrepareMaxPool(const KernelSpec& spec) {
  return PrepareOneToOne<false>(spec, [](const auto& loops) { return loops.max; });
}

PreparedKernel PrepareAveragePool(const KernelSpec& spec) {
  return PrepareOneToOne<false>(spec, [](const auto& loops) { return loops.average; });
}

PreparedKernel PrepareAveragePoolGradient(const KernelSpec& spec) {
  return PrepareOneToOne<true>(spec, [](const auto& loops) { return loops.average_gradient; });
}

PreparedKernel PrepareMaxPoolGradient(const KernelSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireAll(spec, dtype));
  ASSIGN_OR_RETURN(const Pieces pieces,
                   Pieces::Of(spec, spec.inputs[0].local, spec.inputs[1].local));
  return OfFloat(spec, dtype, [&]<typename T>(T) {
    const auto run = Vectors().of<T>().pool.max_gradient;
    return MakeKernel(
        [pieces, run](const KernelContext& context, const Operands& at) {
          const T *x = at.at<T>(0), *dy = at.at<T>(1);
          T* dx = at.at<T>(2);
          pieces.ForEach(context,
                         [&](const PoolImage& image, int64_t from, int64_t place, int64_t worker) {
                           run(image, x + from, dy + place, dx + from,
                               at.scratch<int32_t>() + worker * pieces.ScratchOfWorker());
                         });
        },
        pieces.workers() * pieces.ScratchOfWorker() * 4);
  });
}

}  // namespace sluice::cpu
