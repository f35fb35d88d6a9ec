#include "framework/kernels/cpu/rows.h"

#include <array>
#include <atomic>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/kernels/cpu/all_kernels.h"

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
// Of a digit: as many ends of lists as the nearest caches hold. Ids have 31.
constexpr int kMostBits = 11, kMostDigits = 3;
static_assert(kMostBits * kMostDigits >= 31 && kMostDigits <= kMostSlices);

int64_t Slices(const KernelContext& context, int64_t n) {
  ThreadPool* const pool = context.thread_pool();
  const int64_t threads = pool == nullptr ? 1 : pool->threads();
  return std::clamp<int64_t>(n / kSlice, 1, std::min(threads, kMostSlices));
}

struct Digit {
  int shift, bits;
  uint32_t Of(uint64_t key) const { return key >> shift & ((1u << bits) - 1); }
};

// The bits that any id has.
uint32_t BitsOf(const int32_t* ids, int64_t n) {
  using Some [[gnu::vector_size(64), gnu::aligned(4), gnu::may_alias]] = uint32_t;
  constexpr int64_t kSome = 16;
  Some some = {};
  uint32_t all = 0;
  int64_t i = 0;
  for (; i + kSome <= n; i += kSome) some |= *reinterpret_cast<const Some*>(ids + i);
  for (int l = 0; l < kSome; ++l) all |= some[l];
  for (; i < n; ++i) all |= static_cast<uint32_t>(ids[i]);
  return all;
}

// How many ids have each value of each digit; in one pass, as counts wait for one another.
template <int digits>
void CountDigits(const int32_t* ids, int64_t n, int bits, uint32_t* counts) {
  std::fill_n(counts, int64_t{digits} << bits, 0);
  for (int64_t i = 0; i < n; ++i) {
#pragma GCC unroll 3
    for (int d = 0; d < digits; ++d) {
      ++counts[(d << bits) + Digit{d * bits, bits}.Of(static_cast<uint32_t>(ids[i]))];
    }
  }
}

// How many keys that for_each(slice, fn) gives to fn have each value of a digit, by slices.
template <typename ForEach>
void CountDigit(const KernelContext& context, Digit digit, int64_t slices, uint32_t* counts,
                ForEach&& for_each) {
  ForEachPiece(context, slices, [&](int64_t slice) {
    uint32_t* const mine = counts + (slice << digit.bits);
    std::fill_n(mine, int64_t{1} << digit.bits, 0);
    for_each(slice, [&](uint64_t key) { ++mine[digit.Of(key)]; });
  });
}

// Moves these keys to `to`, in order.
template <typename ForEach>
void MoveByDigit(const KernelContext& context, Digit digit, int64_t slices, uint32_t* counts,
                 uint64_t* to, ForEach&& for_each) {
  const auto counts_of = [&](int64_t slice) { return counts + (slice << digit.bits); };
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
}

// Leaves the entries of n ids in order in `to`; `other` is of as many.
void SortInto(const KernelContext& context, const int32_t* ids, int64_t n, uint64_t* to,
              uint64_t* other) {
  const auto entries_of = [=](int64_t from, int64_t until, auto&& fn) {
    for (int64_t i = from; i < until; ++i) {
      fn(static_cast<uint64_t>(ids[i]) << 32 | static_cast<uint64_t>(i));
    }
  };
  if (n < kFew) {
    entries_of(0, n, [to](uint64_t entry) { to[PlaceOf(entry)] = entry; });
    std::sort(to, to + n);
    return;
  }
  const int bits = static_cast<int>(std::bit_width(BitsOf(ids, n) | 1));
  const int digits = (bits + kMostBits - 1) / kMostBits, width = (bits + digits - 1) / digits;
  const int64_t slices = Slices(context, n);
  uint32_t counts[kMostSlices << kMostBits];
  // One slice has the counts of all digits from the start; those of several change with each move.
  if (slices == 1) {
    constexpr std::array kCount = {CountDigits<1>, CountDigits<2>, CountDigits<3>};
    static_assert(kCount.size() == kMostDigits);
    kCount[digits - 1](ids, n, width, counts);
  }
  if (digits % 2 == 0) std::swap(to, other);  // the last move is into the first of these
  for (int d = 0; d < digits; ++d) {
    const Digit digit = {32 + d * width, width};
    const auto for_each = [&](int64_t slice, auto&& fn) {
      const Range range = Cut({0, n}, slices, slice);
      if (d == 0) return entries_of(range.begin, range.end, fn);
      for (int64_t i = range.begin; i < range.end; ++i) fn(other[i]);
    };
    uint32_t* const counts_of_digit = slices == 1 ? counts + (d << width) : counts;
    if (slices > 1) CountDigit(context, digit, slices, counts, for_each);
    MoveByDigit(context, digit, slices, counts_of_digit, to, for_each);
    std::swap(to, other);
  }
}

// Names what is wrong with the entries of one group; OK where nothing is.
absl::Status ErrorOf(const char* op, const uint64_t* entries, int64_t n, int64_t limit) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t id = static_cast<int32_t>(entries[i] >> 32), place = PlaceOf(entries[i]);
    if (id < 0 || id >= limit) {
      return absl::OutOfRangeError(
          absl::StrCat(op, ": expected ids in [0, ", limit, "), got ", id, " in row ", place));
    }
    if (place >= n) {
      return absl::OutOfRangeError(
          absl::StrCat(op, ": expected places in [0, ", n, "), got ", place, " in entry ", i));
    }
    if (i > 0 && entries[i] <= entries[i - 1]) {
      return absl::InvalidArgumentError(
          absl::StrCat(op, ": expected sorted ids, got id ", id, " of row ", place, " behind id ",
                       IdOf(entries[i - 1]), " of row ", PlaceOf(entries[i - 1])));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSortedIds(const KernelContext& context, const char* op, const uint64_t* entries,
                            int64_t groups, int64_t of_group, int64_t limit) {
  const int64_t bound = std::min(limit, int64_t{1} << 31);
  const auto ascend = Vectors().sorted_ids.ascend;
  for (int64_t g = 0; g < groups && of_group > 0; ++g, entries += of_group) {
    std::atomic<bool> good = IdOf(entries[of_group - 1]) < bound && PlaceOf(entries[0]) < of_group;
    Parallel(context, of_group - 1, kCheapGrain, [&](int64_t begin, int64_t end) {
      if (!ascend(entries + begin, end - begin + 1, of_group)) good = false;
    });
    if (!good) return ErrorOf(op, entries, of_group, limit);
  }
  return absl::OkStatus();
}

SortedIds IdsBetween(const uint64_t* entries, int64_t n, int64_t begin, int64_t end) {
  const auto first_of = [=](int64_t id) {
    return std::lower_bound(entries, entries + n, static_cast<uint64_t>(id) << 32);
  };
  const uint64_t* const first = first_of(begin);
  return {first, first_of(end) - first};
}

// ids; entries.
PreparedKernel PrepareSortIds(const KernelSpec& spec) {
  RETURN_IF_ERROR(RequireTypes(spec, {DType::kI32, DType::kI32}));
  const Shape& ids = spec.inputs[0].local;
  const int64_t groups = NumRows(ids), of_group = RowLength(ids);
  return MakeKernel(
      [=](const KernelContext& context, const Operands& at) -> absl::Status {
        for (int64_t g = 0; g < groups; ++g) {
          const int32_t* const group = at.at<int32_t>(0) + g * of_group;
          RETURN_IF_ERROR(CheckIds("sort_ids", group, of_group, int64_t{1} << 31));
          SortInto(context, group, of_group, at.at<uint64_t>(1) + g * of_group,
                   at.scratch<uint64_t>());
        }
        return absl::OkStatus();
      },
      AlignedBytes(of_group * 8));
}

}  // namespace sluice::cpu
