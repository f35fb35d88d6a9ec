// Pictures of bytes as numbers, each channel by its own mean and standard deviation.
#include "framework/kernels/cpu/all_kernels.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu {

// x; y. Where channels are split, those of a shard are found by its place.
PreparedKernel PrepareNormalizeImages(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireTypes(spec, {DType::kU8, DType::kF32}));
  ASSIGN_OR_RETURN(const NormalizeImagesAttributes attributes,
                   ParseAttributes<NormalizeImagesAttributes>(spec.attributes));
  const Shard& x = spec.inputs[0];
  const int last = x.local.rank() - 1;
  const int64_t n = x.NumElements(), channels = x.local[last];
  const int64_t first = x.offset[last], per_micro = x.stride_per_micro[last];
  const int64_t period = 16 * channels;
  return MakeKernel(
      [=](const KernelContext& context, const Operands& at) {
        if (n == 0) return;
        float* const mean = at.scratch<float>();
        float* const factor = mean + period;
        for (int64_t i = 0; i < period; ++i) {
          const int64_t channel = first + context.micro * per_micro + i % channels;
          mean[i] = static_cast<float>(255 * attributes.mean[channel]);
          factor[i] = static_cast<float>(1 / (255 * attributes.stddev[channel]));
        }
        Parallel(context, n, kCheapGrain, [&](int64_t begin, int64_t end) {
          // Cuts are at multiples of 16, and so within a period.
          Vectors().image.normalize(at.at<uint8_t>(0) + begin, mean, factor, period, begin % period,
                                    at.at(1) + begin, end - begin);
        });
      },
      2 * period * static_cast<int64_t>(sizeof(float)));
}

}  // namespace sluice::cpu
