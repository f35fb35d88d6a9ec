// Gradients that are rows of a table: checking ids, and adding up the rows of each id once, in
// order of appearance, by what `sort_ids` has made of the ids. For the files of this package only.
#ifndef SLUICE_FRAMEWORK_KERNELS_CPU_ROWS_H_
#define SLUICE_FRAMEWORK_KERNELS_CPU_ROWS_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/cpu/vector.h"
#include "framework/kernels/table_rows.h"

namespace sluice::cpu {

// OutOfRange unless every id is in [0, limit), naming the first that is not and its place.
absl::Status CheckIds(const char* op, const int32_t* ids, int64_t n, int64_t limit);

// How many rows of so many elements ahead of its use a row is asked for: about as many cache lines
// as a processor waits for at a time, as rows of a large table are in no cache.
inline int64_t RowsAhead(int64_t width) {
  return std::clamp<int64_t>(1024 / std::max<int64_t>(width, 16), 4, 64);
}

// Asks for a row. Not by the compiler's builtin: gcc takes a function that does nothing else for
// one without effect, and drops its calls.
inline void FetchRow(const float* row, int64_t width) {
  for (int64_t e = 0; e < width; e += 16) asm volatile("prefetcht0 %0" : : "m"(row[e]));
}

// Entries of `sort_ids` (ops/update.h): an id and the place of its row, 32 bits of both.
inline int64_t IdOf(uint64_t entry) { return static_cast<int64_t>(entry >> 32); }
inline int64_t PlaceOf(uint64_t entry) { return static_cast<int64_t>(entry & 0xffffffff); }
struct SortedIds {
  const uint64_t* entries;
  int64_t count;
};
// An error unless the entries of each group ascend, the ids are in [0, limit) and the places in
// [0, of_group), so that no place stands twice.
absl::Status CheckSortedIds(const KernelContext& context, const char* op, const uint64_t* entries,
                            int64_t groups, int64_t of_group, int64_t limit);
// Of n entries those whose ids are in [begin, end).
SortedIds IdsBetween(const uint64_t* entries, int64_t n, int64_t begin, int64_t end);

// The places of one id among all ids, ascending.
class RowPlaces {
 public:
  RowPlaces() = default;
  RowPlaces(const uint64_t* begin, const uint64_t* end) : begin_(begin), end_(end) {}
  int64_t size() const { return end_ - begin_; }
  int64_t operator[](int64_t i) const { return PlaceOf(begin_[i]); }

 private:
  const uint64_t *begin_ = nullptr, *end_ = nullptr;  // of SortedIds
};

// The rows of `values` [n, width] by their sorted ids, those in [begin, end) alone: looked at by as
// many threads as there are, in pieces whose cuts no thread decides.
class DistinctRows {
 public:
  // Bytes of scratch that it needs.
  static int64_t Scratch(int64_t n, int64_t width) {
    return Pieces(n) * (AlignedBytes(width * 4) + 8);
  }

  DistinctRows(const KernelContext& context, const uint64_t* entries, const float* values,
               int64_t n, int64_t width, int64_t begin, int64_t end, std::byte* scratch)
      : context_(context),
        values_(values),
        n_(n),
        width_(width),
        ids_(IdsBetween(entries, n, begin, end)),
        sums_(scratch),
        totals_(reinterpret_cast<double*>(sums_ + Pieces(n) * AlignedBytes(width * 4))) {}

  // make() gives what looks at the rows of one piece: visit(id, sum, places) for each distinct id,
  // ascending, with the sum of its rows in order of appearance, and where they stand; then
  // visit.Finish(). fetch(id): soon to be asked for. All are called by several threads, for an id
  // by one.
  template <typename Make, typename Fetch>
  void ForEach(Make&& make, Fetch&& fetch) const {
    ForEachPiece([&](int64_t piece) {
      auto visit = make();
      RunPiece(piece, visit, fetch);
      visit.Finish();
    });
  }
  // Whether rows are of one element, and places in the vector loops' range.
  bool AreElements() const { return width_ == 1 && n_ <= std::numeric_limits<int32_t>::max(); }
  // The same of such rows: take(ids, sums, n) for at most kEntriesAtOnce distinct ids at a time.
  template <typename Take>
  void ForEachElement(Take&& take) const {
    ForEachPiece([&](int64_t piece) { RunElements(piece, take); });
  }
  // The sum of the squares of what the rows of each id add up to.
  double SumOfSquares() const {
    const auto squares = Vectors().f32.reduction.sum_squares;
    ForEachPiece([&](int64_t piece) {
      double total = 0;
      if (AreElements()) {
        RunElements(piece, [&](const int32_t*, const float* sums, int64_t n) {
          // The square of one f32 is exact.
          for (int64_t i = 0; i < n; ++i) total += static_cast<double>(sums[i]) * sums[i];
        });
      } else {
        RunPiece(
            piece,
            [&](int64_t, const float* sum, const RowPlaces&) { total += squares(sum, width_); },
            [](int64_t) {});
      }
      totals_[piece] = total;
    });
    double total = 0;
    for (int64_t piece = 0; piece < Pieces(ids_.count); ++piece) total += totals_[piece];
    return total;
  }

 private:
  static constexpr int64_t kPiece = 1024;  // rows
  static int64_t Pieces(int64_t n) { return (n + kPiece - 1) / kPiece; }

  int64_t IdAt(int64_t i) const { return IdOf(ids_.entries[i]); }
  const float* RowAt(int64_t i) const { return values_ + PlaceOf(ids_.entries[i]) * width_; }
  // The first row at or behind i whose id is not that of the row before it.
  int64_t NextId(int64_t i) const {
    while (i > 0 && i < ids_.count && IdAt(i) == IdAt(i - 1)) ++i;
    return std::min(i, ids_.count);
  }

  template <typename F>
  void ForEachPiece(F&& fn) const {
    ParallelRows(context_, Pieces(ids_.count), kPiece * width_, kCheapGrain,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t piece = begin; piece < end; ++piece) fn(piece);
                 });
  }

  template <typename F, typename Fetch>
  void RunPiece(int64_t piece, F&& visit, Fetch&& fetch) const {
    const BinaryLoop<float> add = Vectors().f32.elementwise.add.both;
    float* const sum = reinterpret_cast<float*>(sums_ + piece * AlignedBytes(width_ * 4));
    const int64_t ahead = RowsAhead(width_), end = NextId((piece + 1) * kPiece);
    const auto fetch_behind = [&](int64_t i) {
      if (i + ahead >= ids_.count) return;
      FetchRow(RowAt(i + ahead), width_);
      fetch(IdAt(i + ahead));
    };
    for (int64_t i = NextId(piece * kPiece); i < end;) {
      const int64_t first = i, id = IdAt(i);
      const float* total = RowAt(i);
      fetch_behind(i);
      for (++i; i < ids_.count && IdAt(i) == id; ++i) {
        add(total, RowAt(i), sum, width_);
        total = sum;
        fetch_behind(i);
      }
      visit(id, total, RowPlaces(ids_.entries + first, ids_.entries + i));
    }
  }

  // The entries of an id that a cut parts are added up by who has the first of them.
  template <typename Take>
  void RunElements(int64_t piece, Take&& take) const {
    const auto add_up = Vectors().sorted_ids.add_up;
    alignas(64) int32_t ids[kEntriesAtOnce + 16];
    alignas(64) float sums[kEntriesAtOnce + 16];
    const int64_t end = std::min((piece + 1) * kPiece, ids_.count);
    for (int64_t i = NextId(piece * kPiece); i < end;) {
      const int64_t some = std::min(kEntriesAtOnce, end - i);
      const int64_t count = add_up(ids_.entries + i, some, values_, ids, sums);
      for (i += some; i < ids_.count && IdAt(i) == IdAt(i - 1); ++i) {
        sums[count - 1] = sums[count - 1] + *RowAt(i);
      }
      take(ids, sums, count);
    }
  }

  const KernelContext& context_;
  const float* const values_;
  const int64_t n_, width_;
  const SortedIds ids_;
  std::byte* const sums_;  // a row for each piece
  double* const totals_;   // a number for each
};

}  // namespace sluice::cpu

#endif  // SLUICE_FRAMEWORK_KERNELS_CPU_ROWS_H_
