// Attention of one head, a few query rows at a time: their scores against all keys that the last of
// them sees, weights while those lie in the first cache, then the weighted sum of values. The keys
// (and for the gradient the values) are transposed once a head; all else is read where it lies.
#include "framework/kernels/cpu/attention_rows.h"
#include "framework/kernels/cpu/lanes.h"
#include "framework/kernels/cpu/tiles.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu::SLUICE_ISA {
namespace {

// Query rows whose scores are kept at a time.
constexpr int64_t kAttentionRows = 32;

// [size, padded time], zeros in the padding.
void TransposeHead(const float* from, const AttentionHead& head, float* to) {
  const int64_t padded = Padded(head.time);
  TransposeInto(from, head.row, head.time, head.size, to, padded);
  for (int64_t d = 0; d < head.size; ++d) {
    for (int64_t s = head.time; s < padded; ++s) to[d * padded + s] = 0;
  }
}

int64_t RowsKept(const AttentionHead& head) {
  return kAttentionRows < head.time ? kAttentionRows : head.time;
}
int64_t ForwardScratch(const AttentionHead& head) {
  return (head.size + RowsKept(head)) * Padded(head.time);
}
int64_t BackwardScratch(const AttentionHead& head) { return 2 * ForwardScratch(head); }

void Forward(const AttentionHead& head, const float* q, const float* k, const float* v, float* y,
             float* logsumexp, float* scratch) {
  const int64_t padded = Padded(head.time);
  float* keys = scratch;                         // [size, padded]
  float* scores = scratch + head.size * padded;  // [rows, padded]
  TransposeHead(k, head, keys);
  for (int64_t t = 0; t < head.length; t += kAttentionRows) {
    const int64_t end = t + kAttentionRows < head.length ? t + kAttentionRows : head.length;
    for (int64_t group = t; group < end; group += kTileRows) {
      const int64_t rows = group + kTileRows < end ? kTileRows : end - group;
      const int64_t seen = KeysOf(head, group + rows - 1);
      float* tile = scores + (group - t) * padded;
      MultiplyTiles<false, true>(rows, Padded(seen), head.size, q + group * head.row, {head.row, 1},
                                 keys, padded, tile, padded);
      float max[kLanes] = {}, sum[kLanes] = {}, log[kLanes];
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t keys_of_row = KeysOf(head, group + r);
        WeightRow(tile + r * padded, keys_of_row, seen, head.scale, max + r, sum + r);
        DropRow(head, group + r, keys_of_row, tile + r * padded);
      }
      Store(log, Load(max) + Log(Load(sum)));
      MultiplyTiles<false, true>(rows, head.size, seen, tile, {padded, 1}, v, head.row,
                                 y + group * head.row, head.row);
      for (int64_t r = 0; r < rows; ++r) {
        logsumexp[(group + r) * head.statistic] = log[r];
        const F inverse = Splat(1 / sum[r]);
        float* to = y + (group + r) * head.row;
        ForLanes(head.size, [&](int64_t i, auto lanes) { lanes(to + i, lanes(to + i) * inverse); });
      }
    }
  }
  for (int64_t t = head.length; t < head.time; ++t) {
    logsumexp[t * head.statistic] = 0;
    Zero(y + t * head.row, head.size);
  }
}

void Backward(const AttentionHead& head, const float* q, const float* k, const float* v,
              const float* y, const float* logsumexp, const float* dy, float* dq, float* dk,
              float* dv, float* scratch) {
  const int64_t padded = Padded(head.time), size = head.size, row = head.row;
  const int64_t block = RowsKept(head);
  float* keys = scratch;
  float* values = keys + size * padded;
  float* weights = values + size * padded;  // [block, padded]
  float* slopes = weights + block * padded;
  TransposeHead(k, head, keys);
  TransposeHead(v, head, values);
  for (int64_t s = 0; s < head.time; ++s) {
    if (s >= head.length) Zero(dq + s * row, size);
    Zero(dk + s * row, size);
    Zero(dv + s * row, size);
  }
  for (int64_t t = 0; t < head.length; t += block) {
    const int64_t end = t + block < head.length ? t + block : head.length;
    const int64_t most = KeysOf(head, end - 1);
    for (int64_t group = t; group < end; group += kTileRows) {
      const int64_t rows = group + kTileRows < end ? kTileRows : end - group;
      const int64_t keys_seen = KeysOf(head, group + rows - 1), seen = Padded(keys_seen);
      float* p = weights + (group - t) * padded;
      float* s = slopes + (group - t) * padded;
      MultiplyTiles<false, true>(rows, seen, size, q + group * row, {row, 1}, keys, padded, p,
                                 padded);
      MultiplyTiles<false, true>(rows, seen, size, dy + group * row, {row, 1}, values, padded, s,
                                 padded);
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t at = (group + r) * row;
        const float partial = SumOver(
            size, [&](int64_t i, auto lanes) { return lanes(dy + at + i) * lanes(y + at + i); });
        const int64_t n = KeysOf(head, group + r);
        DropRow(head, group + r, n, s + r * padded);
        SlopeRow(p + r * padded, s + r * padded, n, most, head.scale,
                 logsumexp[(group + r) * head.statistic], partial);
        DropRow(head, group + r, n, p + r * padded);
      }
      MultiplyTiles<false, true>(rows, size, keys_seen, s, {padded, 1}, k, row, dq + group * row,
                                 row);
    }
    MultiplyTiles<true, false>(most, size, end - t, weights, {1, padded}, dy + t * row, row, dv,
                               row);
    MultiplyTiles<true, false>(most, size, end - t, slopes, {1, padded}, q + t * row, row, dk, row);
  }
}

// One query row reads every key and value once: there is nothing to keep in registers or to
// transpose for, and memory is the limit.
void Cached(const AttentionHead& head, int64_t rows, int64_t cached, const float* q, const float* k,
            const float* v, const float* keys, const float* values, float* y, float* scratch) {
  const int64_t size = head.size, row = head.row;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t n = cached + r + 1;
    const float* const query = q + r * row;
    for (int64_t s = 0; s < n; ++s) {
      const float* const key = s < cached ? keys + s * row : k + (s - cached) * row;
      scratch[s] =
          SumOver(size, [&](int64_t i, auto lanes) { return lanes(query + i) * lanes(key + i); });
    }
    float max, sum;
    WeightRow(scratch, n, n, head.scale, &max, &sum);
    const F inverse = Splat(1 / sum);
    ForLanes(size, [&](int64_t i, auto lanes) {
      F total = Splat(0);
      for (int64_t s = 0; s < cached; ++s) {
        total = Fma(Splat(scratch[s]), lanes(values + s * row + i), total);
      }
      for (int64_t s = cached; s < n; ++s) {
        total = Fma(Splat(scratch[s]), lanes(v + (s - cached) * row + i), total);
      }
      lanes(y + r * row + i, total * inverse);
    });
  }
}

}  // namespace

extern const AttentionVector<float> kAttention = {ForwardScratch, BackwardScratch, Forward,
                                                  Backward};
extern const CachedAttentionVector kCachedAttention = {Cached};

}  // namespace sluice::cpu::SLUICE_ISA
