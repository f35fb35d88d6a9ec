// Attention of one head of bf16 by products that multiply two bf16 in each lane and add up in f32
// (PairTerm). What is summed over lies in pairs: rows of queries and keys do so by themselves,
// along the head's size; rows of values are paired with the next ones, once a head. Scores, softmax
// and its statistics are f32; weights, and slopes of scores, are rounded to be multiplied.
#include "framework/kernels/cpu/attention_rows.h"
#include "framework/kernels/cpu/lanes.h"
#include "framework/kernels/cpu/tiles.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu::SLUICE_ISA {
namespace {

// Query rows whose weights are kept for the gradients of keys and values: the more there are, the
// less often those sums are loaded and stored.
constexpr int64_t kBlock = 64;

// Gives arrays of scratch, one behind the other, each at a multiple of a cache line. Of no scratch
// it counts only.
class Arrays {
 public:
  explicit Arrays(float* scratch) : scratch_(scratch) {}
  float* Take(int64_t floats) {
    float* const taken = scratch_ == nullptr ? nullptr : scratch_ + used_;
    used_ += Padded(floats);
    return taken;
  }
  int64_t used() const { return used_; }

 private:
  float* const scratch_;
  int64_t used_ = 0;
};

// A head in pairs along its size.
struct PairedRows {
  const float* at;
  int64_t row;
};
// As it lies, or of an odd size a copy with a zero behind each row.
PairedRows RowsInPairs(const BFloat16* from, const AttentionHead& head, float* copy) {
  if (head.size % 2 == 0) return {reinterpret_cast<const float*>(from), head.row / 2};
  const int64_t pairs = (head.size + 1) / 2;
  for (int64_t t = 0; t < head.length; ++t) {
    copy[t * pairs + pairs - 1] = 0;
    __builtin_memcpy(copy + t * pairs, from + t * head.row, 2 * head.size);
  }
  return {copy, pairs};
}
int64_t CopyFloats(const AttentionHead& head) {
  return head.size % 2 == 0 ? 0 : head.time * (head.size + 1) / 2;
}

// [pairs of the size, padded time], zeros behind the last row.
void TransposeRows(PairedRows from, const AttentionHead& head, float* to) {
  const int64_t padded = Padded(head.time), pairs = (head.size + 1) / 2;
  TransposeInto(from.at, from.row, head.length, pairs, to, padded);
  for (int64_t d = 0; d < pairs; ++d) {
    for (int64_t s = head.length; s < Padded(head.length); ++s) to[d * padded + s] = 0;
  }
}

// [pairs of the time, size], a zero behind an odd last row.
void PairTimes(const BFloat16* from, const AttentionHead& head, float* to) {
  for (int64_t t = 0; t < head.length; t += 2) {
    const BFloat16* const first = from + t * head.row;
    PairRows(first, t + 1 < head.length ? first + head.row : nullptr, to + t / 2 * head.size,
             head.size);
  }
}

// Rows of a tile, of a head that may have fewer.
int64_t GroupRows(const AttentionHead& head) {
  return kTileRows < head.time ? kTileRows : head.time;
}
int64_t TimePairFloats(const AttentionHead& head) { return (head.time + 1) / 2 * head.size; }

void RoundRow(const float* from, int64_t columns, float* to) {
  for (int64_t i = 0; i < columns; i += kLanes) {
    StoreForPairs(reinterpret_cast<BFloat16*>(to) + i, Load(from + i));
  }
}

// Rows of f32, `size` apart, as rows of a head.
void StoreRows(const float* from, int64_t rows, const AttentionHead& head, BFloat16* to) {
  for (int64_t r = 0; r < rows; ++r) {
    ForLanes(head.size, [&](int64_t i, auto lanes) {
      lanes(to + r * head.row + i, lanes(from + r * head.size + i));
    });
  }
}

struct ForwardArrays {
  float *query_copy, *key_copy;
  float *keys, *values;     // [size pairs, padded], [time pairs, size]
  float *scores, *weights;  // of one group of rows: f32 [rows, padded], bf16 likewise
  float* result;            // [rows, size]
  int64_t used;
  ForwardArrays(const AttentionHead& head, float* scratch) {
    Arrays arrays(scratch);
    const int64_t padded = Padded(head.time);
    query_copy = arrays.Take(CopyFloats(head)), key_copy = arrays.Take(CopyFloats(head));
    keys = arrays.Take((head.size + 1) / 2 * padded);
    values = arrays.Take(TimePairFloats(head));
    scores = arrays.Take(GroupRows(head) * padded);
    weights = arrays.Take(GroupRows(head) * padded / 2);
    result = arrays.Take(GroupRows(head) * head.size);
    used = arrays.used();
  }
};

void Forward(const AttentionHead& head, const BFloat16* q, const BFloat16* k, const BFloat16* v,
             BFloat16* y, float* logsumexp, float* scratch) {
  const ForwardArrays at(head, scratch);
  const int64_t padded = Padded(head.time), pairs = (head.size + 1) / 2;
  const PairedRows queries = RowsInPairs(q, head, at.query_copy);
  TransposeRows(RowsInPairs(k, head, at.key_copy), head, at.keys);
  PairTimes(v, head, at.values);
  for (int64_t group = 0; group < head.length; group += kTileRows) {
    const int64_t rows = group + kTileRows < head.length ? kTileRows : head.length - group;
    const int64_t seen = KeysOf(head, group + rows - 1), columns = Padded(seen);
    MultiplyTiles<false, true, PairTerm>(rows, columns, pairs, queries.at + group * queries.row,
                                         {queries.row, 1}, at.keys, padded, at.scores, padded);
    float max[kLanes] = {}, sum[kLanes] = {}, log[kLanes];
    for (int64_t r = 0; r < rows; ++r) {
      float* const row = at.scores + r * padded;
      const int64_t n = KeysOf(head, group + r);
      WeightRow(row, n, columns, head.scale, max + r, sum + r);
      DropRow(head, group + r, n, row);
      RoundRow(row, columns, at.weights + r * padded / 2);
    }
    Store(log, Load(max) + Log(Load(sum)));
    MultiplyTiles<false, true, PairTerm>(rows, head.size, (seen + 1) / 2, at.weights,
                                         {padded / 2, 1}, at.values, head.size, at.result,
                                         head.size);
    for (int64_t r = 0; r < rows; ++r) {
      logsumexp[(group + r) * head.statistic] = log[r];
      const F inverse = Splat(1 / sum[r]);
      BFloat16* const to = y + (group + r) * head.row;
      ForLanes(head.size, [&](int64_t i, auto lanes) {
        lanes(to + i, lanes(at.result + r * head.size + i) * inverse);
      });
    }
  }
  for (int64_t t = head.length; t < head.time; ++t) {
    logsumexp[t * head.statistic] = 0;
    Zero(y + t * head.row, head.size);
  }
}

int64_t ForwardScratch(const AttentionHead& head) { return ForwardArrays(head, nullptr).used; }

struct BackwardArrays {
  float* copies[4];                               // of q, k, v, dy
  float *keys, *values;                           // [size pairs, padded]
  float *key_pairs, *query_pairs, *dy_pairs;      // [time pairs, size]
  float *scores, *score_slopes, *rounded_slopes;  // of a group: f32 [rows, padded] twice, bf16
  float *weights, *slopes;                        // of a block: [pairs of rows, padded]
  float *dq, *dk, *dv;                            // f32 [rows, size], [time, size] twice
  float* key_sum;                                 // [size]
  int64_t used;
  BackwardArrays(const AttentionHead& head, float* scratch) {
    Arrays arrays(scratch);
    const int64_t padded = Padded(head.time), group = GroupRows(head) * padded;
    const int64_t head_pairs = (head.size + 1) / 2 * padded;
    for (float*& copy : copies) copy = arrays.Take(CopyFloats(head));
    keys = arrays.Take(head_pairs), values = arrays.Take(head_pairs);
    key_pairs = arrays.Take(TimePairFloats(head)), query_pairs = arrays.Take(TimePairFloats(head));
    dy_pairs = arrays.Take(TimePairFloats(head));
    scores = arrays.Take(group), score_slopes = arrays.Take(group);
    rounded_slopes = arrays.Take(group / 2);
    const int64_t block = (kBlock < head.time ? kBlock : head.time) + 1;
    weights = arrays.Take(block / 2 * padded), slopes = arrays.Take(block / 2 * padded);
    dq = arrays.Take(GroupRows(head) * head.size), key_sum = arrays.Take(head.size);
    dk = arrays.Take(head.time * head.size), dv = arrays.Take(head.time * head.size);
    used = arrays.used();
  }
};

// The gradient of one head, a block of query rows after another.
class Gradient {
 public:
  Gradient(const AttentionHead& head, const BFloat16* q, const BFloat16* k, const BFloat16* v,
           const BFloat16* y, const float* logsumexp, const BFloat16* dy, float* scratch)
      : head_(head),
        at_(head, scratch),
        padded_(Padded(head.time)),
        q_(RowsInPairs(q, head, at_.copies[0])),
        dy_(RowsInPairs(dy, head, at_.copies[1])),
        k_rows_(k),
        y_rows_(y),
        dy_rows_(dy),
        logsumexp_(logsumexp) {
    TransposeRows(RowsInPairs(k, head, at_.copies[2]), head, at_.keys);
    TransposeRows(RowsInPairs(v, head, at_.copies[3]), head, at_.values);
    PairTimes(k, head, at_.key_pairs);
    PairTimes(q, head, at_.query_pairs);
    PairTimes(dy, head, at_.dy_pairs);
    Zero(at_.dk, head.length * head.size);
    Zero(at_.dv, head.length * head.size);
    Zero(at_.key_sum, head.size);
  }

  void Run(BFloat16* dq, BFloat16* dk, BFloat16* dv) {
    const int64_t size = head_.size, row = head_.row;
    for (int64_t t = 0; t < head_.length; t += kBlock) {
      const int64_t end = t + kBlock < head_.length ? t + kBlock : head_.length;
      const int64_t most = KeysOf(head_, end - 1);
      for (int64_t group = t; group < end; group += kTileRows) {
        const int64_t rows = group + kTileRows < end ? kTileRows : end - group;
        Group(group, rows, Padded(most), (group - t) / 2 * padded_);
        for (int64_t r = 0; r < rows; ++r) StoreQueryGradient(group + r, r, dq + (group + r) * row);
      }
      const int64_t pairs = (end - t + 1) / 2, from = t / 2 * size;
      MultiplyTiles<true, false, PairTerm>(most, size, pairs, at_.weights, {1, padded_},
                                           at_.dy_pairs + from, size, at_.dv, size);
      MultiplyTiles<true, false, PairTerm>(most, size, pairs, at_.slopes, {1, padded_},
                                           at_.query_pairs + from, size, at_.dk, size);
    }
    StoreRows(at_.dk, head_.length, head_, dk);
    StoreRows(at_.dv, head_.length, head_, dv);
    for (int64_t t = head_.length; t < head_.time; ++t) {
      Zero(dq + t * row, size);
      Zero(dk + t * row, size);
      Zero(dv + t * row, size);
    }
  }

 private:
  // Query rows from `group` on: their part of dq, and their weights and slopes in pairs of rows, of
  // which those of the block begin `block` behind the arrays' begin.
  void Group(int64_t group, int64_t rows, int64_t columns, int64_t block) {
    const int64_t pairs = (head_.size + 1) / 2, seen = KeysOf(head_, group + rows - 1);
    MultiplyTiles<false, true, PairTerm>(rows, Padded(seen), pairs, q_.at + group * q_.row,
                                         {q_.row, 1}, at_.keys, padded_, at_.scores, padded_);
    MultiplyTiles<false, true, PairTerm>(rows, Padded(seen), pairs, dy_.at + group * dy_.row,
                                         {dy_.row, 1}, at_.values, padded_, at_.score_slopes,
                                         padded_);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t at = (group + r) * head_.row;
      const float partial = SumOver(head_.size, [&](int64_t i, auto lanes) {
        return lanes(dy_rows_ + at + i) * lanes(y_rows_ + at + i);
      });
      const int64_t n = KeysOf(head_, group + r);
      DropRow(head_, group + r, n, at_.score_slopes + r * padded_);
      SlopeRow(at_.scores + r * padded_, at_.score_slopes + r * padded_, n, columns, head_.scale,
               logsumexp_[(group + r) * head_.statistic], partial);
      DropRow(head_, group + r, n, at_.scores + r * padded_);
      RoundRow(at_.score_slopes + r * padded_, Padded(seen), at_.rounded_slopes + r * padded_ / 2);
    }
    for (int64_t r = 0; r < rows; r += 2) {
      PairScores(at_.scores + r * padded_, r + 1 < rows, columns,
                 at_.weights + block + r / 2 * padded_);
      PairScores(at_.score_slopes + r * padded_, r + 1 < rows, columns,
                 at_.slopes + block + r / 2 * padded_);
    }
    MultiplyTiles<false, true, PairTerm>(rows, head_.size, (seen + 1) / 2, at_.rounded_slopes,
                                         {padded_ / 2, 1}, at_.key_pairs, head_.size, at_.dq,
                                         head_.size);
  }

  // Slopes of a row sum to zero before they are rounded. What their sum is then would bring in as
  // much of what all keys have in common, often the most of a key: the mean of the keys seen goes
  // out again.
  void StoreQueryGradient(int64_t row, int64_t r, BFloat16* dq) {
    const int64_t keys = KeysOf(head_, row);
    for (; summed_ < keys; ++summed_) {
      const BFloat16* const key = k_rows_ + summed_ * head_.row;
      ForLanes(head_.size, [&](int64_t i, auto lanes) {
        lanes(at_.key_sum + i, lanes(at_.key_sum + i) + lanes(key + i));
      });
    }
    const BFloat16* const slopes =
        reinterpret_cast<const BFloat16*>(at_.rounded_slopes + r * padded_ / 2);
    const float sum = SumOver(keys, [&](int64_t i, auto lanes) { return lanes(slopes + i); });
    const F factor = Splat(-sum / static_cast<float>(keys));
    ForLanes(head_.size, [&](int64_t i, auto lanes) {
      lanes(dq + i, Fma(factor, lanes(at_.key_sum + i), lanes(at_.dq + r * head_.size + i)));
    });
  }

  // A row with the next one, or with zeros.
  void PairScores(const float* row, bool next, int64_t columns, float* to) const {
    for (int64_t i = 0; i < columns; i += kLanes) {
      Store(to + i, PairOf(Load(row + i), next ? Load(row + padded_ + i) : Splat(0)));
    }
  }

  const AttentionHead& head_;
  const BackwardArrays at_;
  const int64_t padded_;
  const PairedRows q_, dy_;
  const BFloat16 *const k_rows_, *const y_rows_, *const dy_rows_;
  const float* const logsumexp_;
  int64_t summed_ = 0;  // keys in key_sum
};

void Backward(const AttentionHead& head, const BFloat16* q, const BFloat16* k, const BFloat16* v,
              const BFloat16* y, const float* logsumexp, const BFloat16* dy, BFloat16* dq,
              BFloat16* dk, BFloat16* dv, float* scratch) {
  Gradient(head, q, k, v, y, logsumexp, dy, scratch).Run(dq, dk, dv);
}

int64_t BackwardScratch(const AttentionHead& head) { return BackwardArrays(head, nullptr).used; }

}  // namespace

extern const AttentionVector<BFloat16> kAttentionBf16 = {ForwardScratch, BackwardScratch, Forward,
                                                         Backward};

}  // namespace sluice::cpu::SLUICE_ISA
