#include "framework/kernels/cpu/rows.h"

#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice::cpu {

absl::Status CheckIds(const char* op, const int32_t* ids, int64_t n, int64_t limit) {
  const uint32_t bound = static_cast<uint32_t>(std::min<int64_t>(limit, int64_t{1} << 31));
  if (Vectors().arithmetic.all_below(ids, bound, n)) return absl::OkStatus();
  int64_t i = 0;
  while (ids[i] >= 0 && ids[i] < limit) ++i;
  return absl::OutOfRangeError(
      absl::StrCat(op, ": expected ids in [0, ", limit, "), got ", ids[i], " in row ", i));
}

namespace {

// Fewer keys than kFew are compared. Others are moved by digits from the last, each keeping what
// those before have ordered; in slices, which threads take, of at least kSlice keys.
constexpr int64_t kFew = 512, kSlice = 8192, kMostSlices = 8;
constexpr int kMostBits = 11;  // of a digit: as many ends of lists as the nearest caches hold

int64_t Slices(int64_t n) { return std::clamp<int64_t>(n / kSlice, 1, kMostSlices); }

struct Digit {
  int shift, bits;
  uint32_t Of(uint64_t key) const { return key >> shift & ((1u << bits) - 1); }
};

// Moves to `to` the keys that for_each(slice, fn) gives to fn, in order. Gives their number.
template <typename ForEach>
int64_t MoveByDigit(const KernelContext& context, Digit digit, int64_t slices, uint32_t* counts,
                    uint64_t* to, ForEach&& for_each) {
  const auto counts_of = [&](int64_t slice) { return counts + (slice << digit.bits); };
  ForEachPiece(context, slices, [&](int64_t slice) {
    uint32_t* const mine = counts_of(slice);
    std::fill_n(mine, int64_t{1} << digit.bits, 0);
    for_each(slice, [&](uint64_t key) { ++mine[digit.Of(key)]; });
  });
  uint32_t sum = 0;  // each count becomes the place of the first of its keys
  for (int64_t value = 0; value < int64_t{1} << digit.bits; ++value) {
    for (int64_t slice = 0; slice < slices; ++slice) {
      sum += std::exchange(counts_of(slice)[value], sum);
    }
  }
  ForEachPiece(context, slices, [&](int64_t slice) {
    uint32_t* const mine = counts_of(slice);
    for_each(slice, [&](uint64_t key) { to[mine[digit.Of(key)]++] = key; });
  });
  return sum;
}

}  // namespace

int64_t SortScratch(int64_t n) { return 2 * AlignedBytes(n * 8); }

SortedIds SortIds(const KernelContext& context, const int32_t* ids, int64_t n, int64_t begin,
                  int64_t end, std::byte* scratch) {
  uint64_t* to = reinterpret_cast<uint64_t*>(scratch);
  uint64_t* other = reinterpret_cast<uint64_t*>(scratch + AlignedBytes(n * 8));
  const auto keys_of = [=](int64_t from, int64_t until, auto&& fn) {
    for (int64_t i = from; i < until; ++i) {
      if (ids[i] < begin || ids[i] >= end) continue;
      fn(static_cast<uint64_t>(ids[i] - begin) << 32 | static_cast<uint64_t>(i));
    }
  };
  if (n < kFew) {
    int64_t count = 0;
    keys_of(0, n, [&](uint64_t key) { to[count++] = key; });
    std::sort(to, to + count);
    return {to, count};
  }
  const uint64_t last = static_cast<uint64_t>(std::max<int64_t>(end - begin, 2) - 1);
  const int bits = static_cast<int>(std::bit_width(last));
  const int digits = (bits + kMostBits - 1) / kMostBits, width = (bits + digits - 1) / digits;
  const int64_t slices = Slices(n);
  uint32_t counts[kMostSlices << kMostBits];
  const int64_t count =
      MoveByDigit(context, {32, width}, slices, counts, to, [&](int64_t slice, auto&& fn) {
        const Range range = Cut({0, n}, slices, slice);
        keys_of(range.begin, range.end, fn);
      });
  for (int digit = 1; digit < digits; ++digit) {
    std::swap(to, other);
    MoveByDigit(context, {32 + digit * width, width}, slices, counts, to,
                [&](int64_t slice, auto&& fn) {
                  const Range range = Cut({0, count}, slices, slice);
                  for (int64_t i = range.begin; i < range.end; ++i) fn(other[i]);
                });
  }
  return {to, count};
}

}  // namespace sluice::cpu
