// Gradients that are rows of a table: checking ids, and adding up the rows of each id once, in
// order of appearance. For the files of this package only.
#ifndef SLUICE_FRAMEWORK_KERNELS_CPU_ROWS_H_
#define SLUICE_FRAMEWORK_KERNELS_CPU_ROWS_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

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

// The places of one id among all ids, ascending.
class RowPlaces {
 public:
  RowPlaces(const uint64_t* begin, const uint64_t* end) : begin_(begin), end_(end) {}
  int64_t size() const { return end_ - begin_; }
  int64_t operator[](int64_t i) const { return static_cast<int64_t>(begin_[i] & 0xffffffff); }

 private:
  const uint64_t *begin_, *end_;  // an id and a place each, 32 bits of both
};

// The rows of `values` [n, width] by their ids, those in [begin, end) alone: sorted once, then
// looked at by as many threads as there are, in pieces whose cuts no thread decides.
class DistinctRows {
 public:
  // Bytes of scratch that it needs.
  static int64_t Scratch(int64_t n, int64_t width) {
    return 2 * AlignedBytes(n * 8) + Pieces(n) * (AlignedBytes(width * 4) + 8);
  }

  DistinctRows(const int32_t* ids, const float* values, int64_t n, int64_t width, int64_t begin,
               int64_t end, std::byte* scratch)
      : values_(values), width_(width), begin_(begin) {
    uint64_t* const buffers[] = {reinterpret_cast<uint64_t*>(scratch),
                                 reinterpret_cast<uint64_t*>(scratch + AlignedBytes(n * 8))};
    sums_ = scratch + 2 * AlignedBytes(n * 8);
    for (int64_t i = 0; i < n; ++i) {
      if (ids[i] < begin || ids[i] >= end) continue;
      buffers[0][kept_++] = static_cast<uint64_t>(ids[i] - begin) << 32 | static_cast<uint64_t>(i);
    }
    order_ = SortById(buffers, kept_, end - begin);
    totals_ = reinterpret_cast<double*>(sums_ + Pieces(n) * AlignedBytes(width * 4));
  }

  // fn(id, sum, places): for each distinct id the sum of its rows in order of appearance, and where
  // they stand; ids of one piece ascending. fetch(id): soon to be asked for. Both are called by
  // several threads, for an id by one.
  template <typename F, typename Fetch>
  void ForEach(const KernelContext& context, F&& fn, Fetch&& fetch) const {
    ForEachPiece(context, [&](int64_t piece) { RunPiece(piece, fn, fetch); });
  }
  // The sum of fn(sum) over the distinct ids.
  template <typename F>
  double Sum(const KernelContext& context, F&& fn) const {
    ForEachPiece(context, [&](int64_t piece) {
      double total = 0;
      RunPiece(
          piece, [&](int64_t, const float* sum, const RowPlaces&) { total += fn(sum); },
          [](int64_t) {});
      totals_[piece] = total;
    });
    double total = 0;
    for (int64_t piece = 0; piece < Pieces(kept_); ++piece) total += totals_[piece];
    return total;
  }

 private:
  static constexpr int64_t kPiece = 1024;  // rows
  static int64_t Pieces(int64_t n) { return (n + kPiece - 1) / kPiece; }

  // By digits from the last, each keeping what those before have ordered, so that the places of an
  // id ascend. Gives the buffer that has the result.
  static uint64_t* SortById(uint64_t* const buffers[2], int64_t n, int64_t ids) {
    constexpr int kBits = 11, kFew = 512;
    if (n < kFew) {
      std::sort(buffers[0], buffers[0] + n);
      return buffers[0];
    }
    uint64_t *from = buffers[0], *to = buffers[1];
    for (int shift = 32; ((ids - 1) >> (shift - 32)) > 0; shift += kBits) {
      const auto digit = [shift](uint64_t key) { return key >> shift & ((1 << kBits) - 1); };
      uint32_t begins[1 << kBits] = {};
      for (int64_t i = 0; i < n; ++i) ++begins[digit(from[i])];
      uint32_t sum = 0;
      for (uint32_t& count : begins) sum += std::exchange(count, sum);
      for (int64_t i = 0; i < n; ++i) to[begins[digit(from[i])]++] = from[i];
      std::swap(from, to);
    }
    return from;
  }

  int64_t IdAt(int64_t i) const { return static_cast<int64_t>(order_[i] >> 32); }
  const float* RowAt(int64_t i) const { return values_ + (order_[i] & 0xffffffff) * width_; }
  // The first row at or behind i whose id is not that of the row before it.
  int64_t NextId(int64_t i) const {
    while (i > 0 && i < kept_ && IdAt(i) == IdAt(i - 1)) ++i;
    return std::min(i, kept_);
  }

  template <typename F>
  void ForEachPiece(const KernelContext& context, F&& fn) const {
    ParallelRows(context, Pieces(kept_), kPiece * width_, kCheapGrain,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t piece = begin; piece < end; ++piece) fn(piece);
                 });
  }

  template <typename F, typename Fetch>
  void RunPiece(int64_t piece, F&& fn, Fetch&& fetch) const {
    const BinaryLoop<float> add = Vectors().f32.elementwise.add.both;
    float* const sum = reinterpret_cast<float*>(sums_ + piece * AlignedBytes(width_ * 4));
    const int64_t end = NextId((piece + 1) * kPiece), ahead = RowsAhead(width_);
    for (int64_t i = NextId(piece * kPiece); i < end;) {
      if (i + ahead < kept_) {
        FetchRow(RowAt(i + ahead), width_);
        fetch(begin_ + IdAt(i + ahead));
      }
      const int64_t first = i, id = IdAt(i);
      const float* total = RowAt(i);
      for (++i; i < kept_ && IdAt(i) == id; ++i) {
        add(total, RowAt(i), sum, width_);
        total = sum;
      }
      fn(begin_ + id, total, RowPlaces(order_ + first, order_ + i));
    }
  }

  const float* const values_;
  const int64_t width_, begin_;
  int64_t kept_ = 0;
  const uint64_t* order_;  // an id, from begin_, and a place each, 32 bits of both
  std::byte* sums_;        // a row for each piece
  double* totals_;         // a number for each
};

}  // namespace sluice::cpu

#endif  // SLUICE_FRAMEWORK_KERNELS_CPU_ROWS_H_
