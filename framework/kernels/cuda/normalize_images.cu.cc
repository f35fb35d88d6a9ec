// Pictures of bytes as numbers, each channel by its own mean and standard deviation.
#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/elementwise.h"
#include "framework/kernels/cuda/strided_index.h"

namespace sluice::cuda {
namespace {

// Numbers that the host has, as a kernel's argument: so many at a time.
constexpr int64_t kGivenNumbers = 256;
struct GivenNumbers {
  float at[kGivenNumbers];
};
__global__ void __launch_bounds__(kElementwiseThreads)
    WriteNumbersKernel(GivenNumbers numbers, float* to, int64_t n) {
  for (int64_t i = ThreadIndex(); i < n; i += NumThreads()) to[i] = numbers.at[i];
}

absl::Status WriteNumbers(const KernelContext& context, const float* numbers, int64_t n,
                          float* to) {
  for (int64_t first = 0; first < n; first += kGivenNumbers) {
    const int64_t count = std::min(kGivenNumbers, n - first);
    GivenNumbers given = {};
    std::copy_n(numbers + first, count, given.at);
    RETURN_IF_ERROR(Launch(context, WriteNumbersKernel, GridOver(count), given, to + first, count));
  }
  return absl::OkStatus();
}

// `numbers`: mean and factor of each channel.
__global__ void __launch_bounds__(kElementwiseThreads)
    NormalizeImagesKernel(const uint8_t* x, const float* numbers, Divisor channels, float* y,
                          Elements elements) {
  ForElements<kPack<uint8_t>>(elements, [=]<int count>(int64_t i, Count<count>) {
    F a[count];
    Load(x + i, a);
    int64_t channel = i - Quotient(i, channels) * channels.value;
    for (int e = 0; e < count; ++e) {
      a[e] = (a[e] - numbers[2 * channel]) * numbers[2 * channel + 1];
      channel = channel + 1 == channels.value ? 0 : channel + 1;
    }
    Store(a, y + i);
  });
}

}  // namespace

// x; y. Where channels are split, those of a shard are found by its place.
PreparedKernel PrepareNormalizeImages(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireTypes(spec, {DType::kU8, DType::kF32}));
  ASSIGN_OR_RETURN(const NormalizeImagesAttributes attributes,
                   ParseAttributes<NormalizeImagesAttributes>(spec.attributes));
  const Shard& x = spec.inputs[0];
  const int last = x.local.rank() - 1;
  const int64_t n = x.NumElements(), channels = x.local[last];
  const int64_t first = x.offset[last], per_micro = x.stride_per_micro[last];
  std::vector<float> numbers;  // of all channels
  for (size_t c = 0; c < attributes.mean.size(); ++c) {
    numbers.push_back(static_cast<float>(255 * attributes.mean[c]));
    numbers.push_back(static_cast<float>(1 / (255 * attributes.stddev[c])));
  }
  return MakeKernel(
      [=](const KernelContext& context, const Operands& at) -> absl::Status {
        if (n == 0) return absl::OkStatus();
        float* const scratch = at.scratch<float>();
        RETURN_IF_ERROR(WriteNumbers(context,
                                     numbers.data() + 2 * (first + context.micro * per_micro),
                                     2 * channels, scratch));
        const uint8_t* const pixels = at.at<uint8_t>(0);
        const Elements elements = ElementsOf(n, kPack<uint8_t>, pixels, at.at(1));
        return Launch(context, NormalizeImagesKernel, elements.grid(), pixels, scratch,
                      DivisorOf(channels, n), at.at(1), elements);
      },
      2 * channels * static_cast<int64_t>(sizeof(float)));
}

}  // namespace sluice::cuda
