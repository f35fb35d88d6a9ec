#include "framework/kernels/cpu/lanes.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu::SLUICE_ISA {
namespace {

// As in rows.h, which has inline functions and so may not be included here (vector.h).
SLUICE_INLINE int32_t IdOf(uint64_t entry) { return static_cast<int32_t>(entry >> 32); }
SLUICE_INLINE int32_t PlaceOf(uint64_t entry) { return static_cast<int32_t>(entry); }

bool Ascend(const uint64_t* entries, int64_t n, uint64_t places) {
  uint64_t bad = 0;
  for (int64_t i = 1; i < n; ++i) {
    bad |= entries[i] <= entries[i - 1];
    bad |= (entries[i] & 0xffffffff) >= places;
  }
  return bad == 0;
}

// Entries told apart by whether their id is that of the entry before. Each list has room for a
// register more than it holds.
struct Lists {
  int32_t *ids, *places;  // of those with another id
  int32_t* again;         // where the others stand
  int64_t count = 0, count_again = 0;

  // Without branches, which nothing could predict.
  SLUICE_INLINE void Add(const uint64_t* entries, int64_t i) {
    const bool another = i == 0 || IdOf(entries[i]) != IdOf(entries[i - 1]);
    ids[count] = IdOf(entries[i]);
    places[count] = PlaceOf(entries[i]);
    again[count_again] = static_cast<int32_t>(i);
    count += another;
    count_again += !another;
  }

#ifdef __AVX512F__
  // Sixteen from i > 0 on.
  SLUICE_INLINE void AddLanes(const uint64_t* entries, int64_t i) {
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    const __m512i a = _mm512_loadu_si512(entries + i), b = _mm512_loadu_si512(entries + i + 8);
    const __m512i id = _mm512_permutex2var_epi32(a, odd, b);
    const __m512i before = _mm512_alignr_epi32(id, _mm512_set1_epi32(IdOf(entries[i - 1])), 15);
    const __mmask16 another = _mm512_cmpneq_epi32_mask(id, before);
    const __mmask16 others = static_cast<__mmask16>(~another);
    const __m512i at =
        _mm512_add_epi32(_mm512_srli_epi32(even, 1), _mm512_set1_epi32(static_cast<int32_t>(i)));
    _mm512_storeu_si512(ids + count, _mm512_maskz_compress_epi32(another, id));
    _mm512_storeu_si512(places + count, _mm512_maskz_compress_epi32(
                                            another, _mm512_permutex2var_epi32(a, even, b)));
    _mm512_storeu_si512(again + count_again, _mm512_maskz_compress_epi32(others, at));
    const int added = __builtin_popcount(another);
    count += added;
    count_again += kLanes - added;
  }
#else
  SLUICE_INLINE void AddLanes(const uint64_t* entries, int64_t i) {
    for (int64_t l = 0; l < kLanes; ++l) Add(entries, i + l);
  }
#endif
};

int64_t AddUp(const uint64_t* entries, int64_t n, const float* values, int32_t* ids, float* sums) {
  alignas(64) int32_t places[kEntriesAtOnce + kLanes], again[kEntriesAtOnce + kLanes];
  Lists lists = {ids, places, again};
  lists.Add(entries, 0);
  int64_t i = 1;
  for (; i + kLanes <= n; i += kLanes) lists.AddLanes(entries, i);
  for (; i < n; ++i) lists.Add(entries, i);
  int64_t first = 0;
  for (; first + kLanes <= lists.count; first += kLanes) {
    Store(sums + first, LoadAt(values, places + first));
  }
  for (; first < lists.count; ++first) sums[first] = values[places[first]];
  // Of the entries up to the k-th of these, k + 1 have no sum of their own.
  for (int64_t k = 0; k < lists.count_again; ++k) {
    float* const sum = sums + again[k] - k - 1;
    *sum = *sum + values[PlaceOf(entries[again[k]])];
  }
  return lists.count;
}

}  // namespace

extern const SortedIdsVector kSortedIds = {Ascend, AddUp};

}  // namespace sluice::cpu::SLUICE_ISA
