// Which classes take part in a step: of each group those that labels name, and the others of the
// smallest draws. They are found by the digits of the draws, from the highest on, as in a radix
// sort of which only the bucket that the last one lies in is looked into: time and scratch follow
// the number of classes, whatever the draws are.
#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/types/span.h"
#include "framework/kernels/cpu/all_kernels.h"
#include "framework/kernels/cpu/classes.h"
#include "framework/tensor/random.h"

namespace sluice::cpu {
namespace {

constexpr int64_t kBuckets = int64_t{1} << 12;

// Some bits of a word.
struct Digit {
  int shift;
  uint32_t ones;
};
constexpr Digit kDigits[] = {{20, 0xfff}, {8, 0xfff}, {0, 0xff}};

using Classes32 = absl::Span<const int32_t>;

// The draws of a group's classes, of which some are named and stand aside.
struct Draws {
  const uint32_t* words;
  int64_t classes;
  Classes32 named;  // ascending

  // Fills `counts`: how many have each digit among those that begin as `prefix` does.
  void Count(uint32_t prefix, uint32_t mask, const Digit& digit, uint32_t* counts) const {
    std::fill_n(counts, kBuckets, 0);
    const auto add = [&](uint32_t word, uint32_t count) {
      if ((word & mask) == prefix) counts[word >> digit.shift & digit.ones] += count;
    };
    for (int64_t c = 0; c < classes; ++c) add(words[c], 1);
    for (const int32_t c : named) add(words[c], ~uint32_t{0});  // less one
  }

  // Those of the `count` smallest words, of equal ones the first, ascending by class.
  void Smallest(int64_t count, uint32_t* counts, int32_t* to) const {
    if (count == 0) return;
    uint32_t prefix = 0, mask = 0;
    int64_t left = count;  // of those that begin as `prefix` does
    for (const Digit& digit : kDigits) {
      Count(prefix, mask, digit, counts);
      uint32_t value = 0;
      for (; left > counts[value]; ++value) left -= counts[value];
      prefix |= value << digit.shift;
      mask |= digit.ones << digit.shift;
    }
    const int32_t* aside = named.begin();
    for (int64_t c = 0; c < classes; ++c) {
      if (aside != named.end() && *aside == c) {
        ++aside;
      } else if (words[c] < prefix || (words[c] == prefix && left-- > 0)) {
        *to++ = static_cast<int32_t>(c);
      }
    }
  }
};

void DrawWords(const KernelContext& context, int64_t key, int64_t first, int64_t n,
               uint32_t* words) {
  Parallel(context, n, kCostlyGrain, [&](int64_t begin, int64_t end) {
    std::array<uint32_t, 4> four = {};
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = first + i;
      if (i == begin || at % 4 == 0) four = Philox(context.seed, key, context.step, at / 4);
      words[i] = four[at % 4];
    }
  });
}

struct SampleScratch {
  explicit SampleScratch(const SampleAttributes& a, int64_t labels) {
    sorted = layout.Reserve(labels * 4);
    words = layout.Reserve(a.classes * 4);
    counts = layout.Reserve(kBuckets * 4);
  }
  ScratchLayout layout;
  int64_t sorted, words, counts;
};

}  // namespace

// labels; classes, positions.
PreparedKernel PrepareSampleClasses(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireAll(spec, DType::kI32));
  ASSIGN_OR_RETURN(const SampleAttributes a, ParseAttributes<SampleAttributes>(spec.attributes));
  const int64_t batch = spec.inputs[0].NumElements();
  const Shard& out = spec.outputs[0];
  const int64_t groups = out.local[0], offset = out.offset[0], by = out.stride_per_micro[0];
  const SampleScratch at_scratch(a, batch);
  const auto run = [=](const KernelContext& context, const Operands& at) -> absl::Status {
    const int32_t* const labels = at.at<int32_t>(0);
    RETURN_IF_ERROR(CheckLabels("sample_classes", labels, batch, a.groups * a.classes));
    std::byte* const scratch = at.scratch<std::byte>();
    int32_t* const sorted = reinterpret_cast<int32_t*>(scratch + at_scratch.sorted);
    std::copy(labels, labels + batch, sorted);
    std::sort(sorted, sorted + batch);
    int32_t* const end = std::unique(sorted, sorted + batch);
    // The first label of a class from here on.
    const auto find = [&](int64_t label) { return std::lower_bound(sorted, end, label); };
    const bool all = a.count == a.classes;
    for (int64_t i = 0; i < batch; ++i) {
      const int64_t group = labels[i] / a.classes;
      const int64_t before = find(labels[i]) - find(group * a.classes);
      at.at<int32_t>(2)[i] = all ? labels[i] : static_cast<int32_t>(group * a.count + before);
    }
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t first = (offset + context.micro * by + g) * a.classes;
      int32_t* to = at.at<int32_t>(1) + g * a.count;
      if (all) {
        for (int64_t c = 0; c < a.classes; ++c) to[c] = static_cast<int32_t>(c);
        continue;
      }
      int32_t* const named = to;
      for (const int32_t* label = find(first); label < find(first + a.classes); ++label) {
        *to++ = static_cast<int32_t>(*label - first);
      }
      uint32_t* const words = reinterpret_cast<uint32_t*>(scratch + at_scratch.words);
      DrawWords(context, a.key, first, a.classes, words);
      Draws{words, a.classes, Classes32(named, to - named)}.Smallest(
          a.count - (to - named), reinterpret_cast<uint32_t*>(scratch + at_scratch.counts), to);
    }
    return absl::OkStatus();
  };
  return MakeKernel(run, at_scratch.layout.bytes());
}

}  // namespace sluice::cpu
