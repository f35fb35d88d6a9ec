#include "framework/kernels/cuda/moves.h"

#include "framework/kernels/cuda/elementwise.h"

namespace sluice::cuda {
namespace {

template <typename Word>
__global__ void __launch_bounds__(kElementwiseThreads)
    FillKernel(Word value, uint4 pack, Word* to, Elements elements) {
  ForElements<kPack<Word>>(elements, [=]<int count>(int64_t i, Count<count>) {
    if constexpr (count == 1) {
      to[i] = value;
    } else {
      *reinterpret_cast<uint4*>(to + i) = pack;
    }
  });
}

template <typename Word>
__global__ void __launch_bounds__(kElementwiseThreads)
    StridedCopyKernel(const Word* from, Word* to, StridedIndex<2> index) {
  for (int64_t item = ThreadIndex(); item < index.items; item += NumThreads()) {
    int64_t at[2];
    OffsetsOf(index, item, at);
    to[at[1]] = from[at[0]];
  }
}

template <typename Word>
absl::Status FillWords(const KernelContext& context, uint64_t bits, std::byte* to, int64_t n) {
  uint64_t pattern = bits;
  for (size_t size = sizeof(Word); size < 8; size *= 2) {
    pattern = pattern << 8 * size | (pattern & ((uint64_t{1} << 8 * size) - 1));
  }
  const uint32_t low = static_cast<uint32_t>(pattern), high = static_cast<uint32_t>(pattern >> 32);
  Word* const words = reinterpret_cast<Word*>(to);
  const Elements elements = ElementsOf(n, kPack<Word>, words);
  return Launch(context, FillKernel<Word>, elements.grid(), static_cast<Word>(bits),
                make_uint4(low, high, low, high), words, elements);
}

}  // namespace

absl::Status CopyBytes(const KernelContext& context, const std::byte* from, std::byte* to,
                       int64_t bytes) {
  if (bytes == 0 || from == to) return absl::OkStatus();
  return FromCuda(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice,
                                  StreamOf(context).handle()),
                  "cudaMemcpyAsync");
}

absl::Status FillElements(const KernelContext& context, uint64_t bits, int64_t size, std::byte* to,
                          int64_t n) {
  if (n == 0) return absl::OkStatus();
  switch (size) {
    case 1:
      return FillWords<uint8_t>(context, bits, to, n);
    case 2:
      return FillWords<uint16_t>(context, bits, to, n);
    case 4:
      return FillWords<uint32_t>(context, bits, to, n);
    default:
      return FillWords<uint64_t>(context, bits, to, n);
  }
}

StridedCopy::StridedCopy(const StridedExtent& extent, int64_t size, int64_t first_from,
                         int64_t first_to) {
  narrow_ = {size, first_from, first_to, IndexOf<2>(extent)};
  widest_ = narrow_;
  for (int64_t word = 2 * size; word <= kPackBytes; word *= 2) {
    const int64_t elements = word / size;
    if (first_from % elements != 0 || first_to % elements != 0 ||
        !WalksInItems(extent, elements, /*repeats=*/false)) {
      break;
    }
    widest_ = {word, first_from / elements, first_to / elements, IndexOf<2>(extent, elements)};
    // Offsets of that index are in elements, all of them multiples of the word's.
    for (int d = 0; d < widest_.index.rank; ++d) {
      for (int64_t& stride : widest_.index.stride[d]) stride /= elements;
    }
  }
}

absl::Status StridedCopy::Run(const KernelContext& context, const std::byte* from,
                              std::byte* to) const {
  if (narrow_.index.items == 0) return absl::OkStatus();
  const uintptr_t starts = reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to);
  const Form& form = starts % static_cast<uintptr_t>(widest_.word) == 0 ? widest_ : narrow_;
  const auto launch = [&]<typename Word>(Word) {
    return Launch(context, StridedCopyKernel<Word>, GridOver(form.index.items),
                  reinterpret_cast<const Word*>(from) + form.first_from,
                  reinterpret_cast<Word*>(to) + form.first_to, form.index);
  };
  switch (form.word) {
    case 1:
      return launch(uint8_t());
    case 2:
      return launch(uint16_t());
    case 4:
      return launch(uint32_t());
    case 8:
      return launch(uint64_t());
    default:
      return launch(uint4());
  }
}

}  // namespace sluice::cuda
