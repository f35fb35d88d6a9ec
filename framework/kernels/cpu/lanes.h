// Sixteen f32 lanes, the same on every instruction-set level: one AVX-512 register or two AVX2
// ones. Only *_vector.cc files include this: it lies in a namespace of its own per level, and it
// includes nothing that emits code outside of that. Every function below gives the same bits on
// both levels; sums over many lanes are folded by one fixed tree.
#ifndef SLUICE_FRAMEWORK_KERNELS_CPU_LANES_H_
#define SLUICE_FRAMEWORK_KERNELS_CPU_LANES_H_

#include <immintrin.h>
#include <stdint.h>

#include "framework/kernels/update_steps.h"

#ifndef __clang__
// gcc 12 takes the deliberately undefined operands inside its AVX-512 intrinsics for mistakes.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace sluice::cpu::SLUICE_ISA {

constexpr int kLanes = 16;
#define SLUICE_INLINE inline __attribute__((always_inline))

#ifdef __AVX512F__

struct F {
  __m512 v;
};
struct I {
  __m512i v;
};
struct M {
  __mmask16 v;
};

SLUICE_INLINE F Splat(float x) { return {_mm512_set1_ps(x)}; }
SLUICE_INLINE F Load(const float* p) { return {_mm512_loadu_ps(p)}; }
SLUICE_INLINE void Store(float* p, F a) { _mm512_storeu_ps(p, a.v); }
SLUICE_INLINE void Stream(float* p, F a) { _mm512_stream_ps(p, a.v); }  // p aligned to 64
SLUICE_INLINE M First(int64_t n) { return {static_cast<__mmask16>((1u << n) - 1)}; }
SLUICE_INLINE F Load(const float* p, M m) { return {_mm512_maskz_loadu_ps(m.v, p)}; }
SLUICE_INLINE void Store(float* p, F a, M m) { _mm512_mask_storeu_ps(p, m.v, a.v); }
SLUICE_INLINE F OfHalves(__m256i halves) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16))};
}
SLUICE_INLINE F Load(const uint16_t* p) {
  return OfHalves(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
SLUICE_INLINE F Load(const uint16_t* p, M m) { return OfHalves(_mm256_maskz_loadu_epi16(m.v, p)); }
// The low halves of the lanes.
SLUICE_INLINE void StoreHalves(uint16_t* p, I a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(a.v));
}
SLUICE_INLINE void StoreHalves(uint16_t* p, I a, M m) {
  _mm512_mask_cvtepi32_storeu_epi16(p, m.v, a.v);
}
SLUICE_INLINE F operator+(F a, F b) { return {_mm512_add_ps(a.v, b.v)}; }
SLUICE_INLINE F operator-(F a, F b) { return {_mm512_sub_ps(a.v, b.v)}; }
SLUICE_INLINE F operator*(F a, F b) { return {_mm512_mul_ps(a.v, b.v)}; }
SLUICE_INLINE F operator/(F a, F b) { return {_mm512_div_ps(a.v, b.v)}; }
SLUICE_INLINE F Fma(F a, F b, F c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
SLUICE_INLINE F Sqrt(F a) { return {_mm512_sqrt_ps(a.v)}; }
// The larger (smaller); b if either is NaN.
SLUICE_INLINE F MaxOrSecond(F a, F b) { return {_mm512_max_ps(a.v, b.v)}; }
SLUICE_INLINE F MinOrSecond(F a, F b) { return {_mm512_min_ps(a.v, b.v)}; }
SLUICE_INLINE M Less(F a, F b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
SLUICE_INLINE M AtMost(F a, F b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)}; }
SLUICE_INLINE M IsNan(F a) { return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q)}; }
SLUICE_INLINE M Or(M a, M b) { return {static_cast<__mmask16>(a.v | b.v)}; }
SLUICE_INLINE bool Any(M m) { return m.v != 0; }
SLUICE_INLINE F Select(M m, F yes, F no) { return {_mm512_mask_blend_ps(m.v, no.v, yes.v)}; }

// The value as it was loaded, before a mask is known: the compiler would make a masked load of a
// Select between it and zero, which waits for the mask before it looks for what it loads.
SLUICE_INLINE F Loaded(F a) {
  asm("" : "+v"(a.v));
  return a;
}

SLUICE_INLINE __m256 LowHalf(F a) { return _mm512_castps512_ps256(a.v); }
SLUICE_INLINE __m256 HighHalf(F a) { return _mm512_extractf32x8_ps(a.v, 1); }
SLUICE_INLINE F Joined(__m256 low, __m256 high) {
  return {_mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1)};
}

SLUICE_INLINE I SplatI(int32_t x) { return {_mm512_set1_epi32(x)}; }
SLUICE_INLINE I LoadI(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
SLUICE_INLINE void StoreI(int32_t* p, I a) { _mm512_storeu_si512(p, a.v); }
SLUICE_INLINE M Equal(I a, I b) { return {_mm512_cmpeq_epi32_mask(a.v, b.v)}; }
SLUICE_INLINE I operator+(I a, I b) { return {_mm512_add_epi32(a.v, b.v)}; }
SLUICE_INLINE I operator-(I a, I b) { return {_mm512_sub_epi32(a.v, b.v)}; }
SLUICE_INLINE I operator^(I a, I b) { return {_mm512_xor_si512(a.v, b.v)}; }
SLUICE_INLINE I operator&(I a, I b) { return {_mm512_and_si512(a.v, b.v)}; }
SLUICE_INLINE I operator|(I a, I b) { return {_mm512_or_si512(a.v, b.v)}; }
template <int n>
SLUICE_INLINE I ShiftLeft(I a) {
  return {_mm512_slli_epi32(a.v, n)};
}
template <int n>
SLUICE_INLINE I ShiftRightSigned(I a) {
  return {_mm512_srai_epi32(a.v, n)};
}
template <int n>
SLUICE_INLINE I ShiftRight(I a) {
  return {_mm512_srli_epi32(a.v, n)};
}
SLUICE_INLINE F ToFloat(I a) { return {_mm512_cvtepi32_ps(a.v)}; }
// u8 as numbers.
SLUICE_INLINE F Load(const uint8_t* p) {
  return ToFloat(I{_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))});
}
SLUICE_INLINE F Load(const uint8_t* p, M m) {
  return ToFloat(I{_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(m.v, p))});
}
SLUICE_INLINE I Bits(F a) { return {_mm512_castps_si512(a.v)}; }
SLUICE_INLINE F FromBits(I a) { return {_mm512_castsi512_ps(a.v)}; }
// table[index % 8]; the table is aligned to 64, and stands there twice.
SLUICE_INLINE F OfEight(const float* table, I index) {
  return {_mm512_permutexvar_ps(index.v, _mm512_load_ps(table))};
}
// a >= b as unsigned numbers.
SLUICE_INLINE M AtLeastUnsigned(I a, I b) { return {_mm512_cmpge_epu32_mask(a.v, b.v)}; }
// High and low words of the products of unsigned lanes.
SLUICE_INLINE void MultiplyWide(I a, I b, I* high, I* low) {
  const __m512i even = _mm512_mul_epu32(a.v, b.v);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a.v, 32), _mm512_srli_epi64(b.v, 32));
  high->v = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
  low->v = _mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
}
// Four vectors of lanes l = 4k + j to to[16j + 4k + v]: lane order is that of PhiloxWords.
SLUICE_INLINE void StoreTransposed(I c0, I c1, I c2, I c3, int32_t* to) {
  const __m512i t0 = _mm512_unpacklo_epi32(c0.v, c1.v), t1 = _mm512_unpackhi_epi32(c0.v, c1.v);
  const __m512i t2 = _mm512_unpacklo_epi32(c2.v, c3.v), t3 = _mm512_unpackhi_epi32(c2.v, c3.v);
  _mm512_storeu_si512(to, _mm512_unpacklo_epi64(t0, t2));
  _mm512_storeu_si512(to + 16, _mm512_unpackhi_epi64(t0, t2));
  _mm512_storeu_si512(to + 32, _mm512_unpacklo_epi64(t1, t3));
  _mm512_storeu_si512(to + 48, _mm512_unpackhi_epi64(t1, t3));
}

#else  // AVX2

struct F {
  __m256 lo, hi;
};
struct I {
  __m256i lo, hi;
};
struct M {
  __m256i lo, hi;
};

SLUICE_INLINE F Splat(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
SLUICE_INLINE F Load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
SLUICE_INLINE void Store(float* p, F a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
SLUICE_INLINE void Stream(float* p, F a) {
  _mm256_stream_ps(p, a.lo);
  _mm256_stream_ps(p + 8, a.hi);
}
SLUICE_INLINE M First(int64_t n) {
  const __m256i count = _mm256_set1_epi32(static_cast<int32_t>(n));
  const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return {_mm256_cmpgt_epi32(count, index),
          _mm256_cmpgt_epi32(count, _mm256_add_epi32(index, _mm256_set1_epi32(8)))};
}
SLUICE_INLINE F Load(const float* p, M m) {
  return {_mm256_maskload_ps(p, m.lo), _mm256_maskload_ps(p + 8, m.hi)};
}
SLUICE_INLINE void Store(float* p, F a, M m) {
  _mm256_maskstore_ps(p, m.lo, a.lo);
  _mm256_maskstore_ps(p + 8, m.hi, a.hi);
}
SLUICE_INLINE __m256 OfHalves(__m128i halves) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}
SLUICE_INLINE F Load(const uint16_t* p) {
  const __m128i* const at = reinterpret_cast<const __m128i*>(p);
  return {OfHalves(_mm_loadu_si128(at)), OfHalves(_mm_loadu_si128(at + 1))};
}
// How many lanes a mask of the first ones has.
SLUICE_INLINE int CountOf(M m) {
  return __builtin_popcount(_mm256_movemask_ps(_mm256_castsi256_ps(m.lo))) +
         __builtin_popcount(_mm256_movemask_ps(_mm256_castsi256_ps(m.hi)));
}
SLUICE_INLINE F Load(const uint16_t* p, M m) {
  uint16_t halves[16] = {};
  const int count = CountOf(m);
  for (int i = 0; i < count; ++i) halves[i] = p[i];
  return Load(halves);
}
// The low halves of the lanes, which are below 2^16.
SLUICE_INLINE void StoreHalves(uint16_t* p, I a) {
  const __m256i mixed = _mm256_packus_epi32(a.lo, a.hi);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(mixed, 0xd8));
}
SLUICE_INLINE void StoreHalves(uint16_t* p, I a, M m) {
  uint16_t halves[16];
  StoreHalves(halves, a);
  const int count = CountOf(m);
  for (int i = 0; i < count; ++i) p[i] = halves[i];
}
SLUICE_INLINE F operator+(F a, F b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
SLUICE_INLINE F operator-(F a, F b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
SLUICE_INLINE F operator*(F a, F b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
SLUICE_INLINE F operator/(F a, F b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
SLUICE_INLINE F Fma(F a, F b, F c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
SLUICE_INLINE F Sqrt(F a) { return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)}; }
SLUICE_INLINE F MaxOrSecond(F a, F b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
SLUICE_INLINE F MinOrSecond(F a, F b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
SLUICE_INLINE M Less(F a, F b) {
  return {_mm256_castps_si256(_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ)),
          _mm256_castps_si256(_mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ))};
}
SLUICE_INLINE M AtMost(F a, F b) {
  return {_mm256_castps_si256(_mm256_cmp_ps(a.lo, b.lo, _CMP_LE_OQ)),
          _mm256_castps_si256(_mm256_cmp_ps(a.hi, b.hi, _CMP_LE_OQ))};
}
SLUICE_INLINE M IsNan(F a) {
  return {_mm256_castps_si256(_mm256_cmp_ps(a.lo, a.lo, _CMP_UNORD_Q)),
          _mm256_castps_si256(_mm256_cmp_ps(a.hi, a.hi, _CMP_UNORD_Q))};
}
SLUICE_INLINE M Or(M a, M b) { return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)}; }
SLUICE_INLINE bool Any(M m) {
  const __m256i either = _mm256_or_si256(m.lo, m.hi);
  return !_mm256_testz_si256(either, either);
}
SLUICE_INLINE F Select(M m, F yes, F no) {
  return {_mm256_blendv_ps(no.lo, yes.lo, _mm256_castsi256_ps(m.lo)),
          _mm256_blendv_ps(no.hi, yes.hi, _mm256_castsi256_ps(m.hi))};
}

SLUICE_INLINE F Loaded(F a) { return a; }

SLUICE_INLINE __m256 LowHalf(F a) { return a.lo; }
SLUICE_INLINE __m256 HighHalf(F a) { return a.hi; }
SLUICE_INLINE F Joined(__m256 low, __m256 high) { return {low, high}; }

SLUICE_INLINE I SplatI(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
SLUICE_INLINE void StoreI(int32_t* p, I a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.lo);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), a.hi);
}
SLUICE_INLINE M Equal(I a, I b) {
  return {_mm256_cmpeq_epi32(a.lo, b.lo), _mm256_cmpeq_epi32(a.hi, b.hi)};
}
SLUICE_INLINE I LoadI(const int32_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8))};
}
SLUICE_INLINE I operator+(I a, I b) {
  return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}
SLUICE_INLINE I operator-(I a, I b) {
  return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)};
}
SLUICE_INLINE I operator^(I a, I b) {
  return {_mm256_xor_si256(a.lo, b.lo), _mm256_xor_si256(a.hi, b.hi)};
}
SLUICE_INLINE I operator&(I a, I b) {
  return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
}
SLUICE_INLINE I operator|(I a, I b) {
  return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
}
template <int n>
SLUICE_INLINE I ShiftLeft(I a) {
  return {_mm256_slli_epi32(a.lo, n), _mm256_slli_epi32(a.hi, n)};
}
template <int n>
SLUICE_INLINE I ShiftRightSigned(I a) {
  return {_mm256_srai_epi32(a.lo, n), _mm256_srai_epi32(a.hi, n)};
}
template <int n>
SLUICE_INLINE I ShiftRight(I a) {
  return {_mm256_srli_epi32(a.lo, n), _mm256_srli_epi32(a.hi, n)};
}
SLUICE_INLINE F ToFloat(I a) { return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }
SLUICE_INLINE F Load(const uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return ToFloat(I{_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))});
}
SLUICE_INLINE F Load(const uint8_t* p, M m) {
  uint8_t bytes[16] = {};
  const int count = CountOf(m);
  for (int i = 0; i < count; ++i) bytes[i] = p[i];
  return Load(bytes);
}
SLUICE_INLINE I Bits(F a) { return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)}; }
SLUICE_INLINE F FromBits(I a) { return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)}; }
SLUICE_INLINE F OfEight(const float* table, I index) {
  const __m256 eight = _mm256_load_ps(table);
  return {_mm256_permutevar8x32_ps(eight, index.lo), _mm256_permutevar8x32_ps(eight, index.hi)};
}
SLUICE_INLINE M AtLeastUnsigned(I a, I b) {
  return {_mm256_cmpeq_epi32(_mm256_max_epu32(a.lo, b.lo), a.lo),
          _mm256_cmpeq_epi32(_mm256_max_epu32(a.hi, b.hi), a.hi)};
}
SLUICE_INLINE void MultiplyWide(__m256i a, __m256i b, __m256i* high, __m256i* low) {
  const __m256i even = _mm256_mul_epu32(a, b);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32));
  *high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
  *low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}
SLUICE_INLINE void MultiplyWide(I a, I b, I* high, I* low) {
  MultiplyWide(a.lo, b.lo, &high->lo, &low->lo);
  MultiplyWide(a.hi, b.hi, &high->hi, &low->hi);
}
SLUICE_INLINE void StoreTransposed(__m256i c0, __m256i c1, __m256i c2, __m256i c3, int32_t* to) {
  const __m256i t0 = _mm256_unpacklo_epi32(c0, c1), t1 = _mm256_unpackhi_epi32(c0, c1);
  const __m256i t2 = _mm256_unpacklo_epi32(c2, c3), t3 = _mm256_unpackhi_epi32(c2, c3);
  const auto store = [to](int j, __m256i a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 16 * j), a);
  };
  store(0, _mm256_unpacklo_epi64(t0, t2));
  store(1, _mm256_unpackhi_epi64(t0, t2));
  store(2, _mm256_unpacklo_epi64(t1, t3));
  store(3, _mm256_unpackhi_epi64(t1, t3));
}
SLUICE_INLINE void StoreTransposed(I c0, I c1, I c2, I c3, int32_t* to) {
  StoreTransposed(c0.lo, c1.lo, c2.lo, c3.lo, to);
  StoreTransposed(c0.hi, c1.hi, c2.hi, c3.hi, to + 8);
}

#endif

SLUICE_INLINE F Reciprocal(F a) { return Splat(1) / a; }

#include "framework/kernels/formulas.inc"

// from[ids[0]], from[ids[1]] and so on, by a load of each: the instructions that gather take longer
// (bench/README.md, "Five models").
SLUICE_INLINE __m128 FourAt(const float* from, const int32_t* ids) {
  __m128 four = _mm_load_ss(from + ids[0]);
  four = _mm_insert_ps(four, _mm_load_ss(from + ids[1]), 0x10);
  four = _mm_insert_ps(four, _mm_load_ss(from + ids[2]), 0x20);
  return _mm_insert_ps(four, _mm_load_ss(from + ids[3]), 0x30);
}
SLUICE_INLINE __m256 EightAt(const float* from, const int32_t* ids) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(FourAt(from, ids)), FourAt(from, ids + 4), 1);
}
SLUICE_INLINE F LoadAt(const float* from, const int32_t* ids) {
  return Joined(EightAt(from, ids), EightAt(from, ids + 8));
}
// The first n lanes.
SLUICE_INLINE void StoreAt(float* to, const int32_t* ids, F a, int64_t n) {
  alignas(64) float lanes[kLanes];
  Store(lanes, a);
#pragma GCC unroll 16
  for (int64_t l = 0; l < n; ++l) to[ids[l]] = lanes[l];
}

// Twice, for registers of sixteen.
alignas(64) constexpr float kEighths[16] = {
    1, kEighth1, kEighth2, kEighth3, kEighth4, kEighth5, kEighth6, kEighth7,
    1, kEighth1, kEighth2, kEighth3, kEighth4, kEighth5, kEighth6, kEighth7};
SLUICE_INLINE F PowerOfEighths(I eighths) { return OfEight(kEighths, eighths); }

// As bf16, in the low halves: rounded to nearest even; NaN stays NaN.
SLUICE_INLINE I RoundToHalves(F a) {
  const I bits = Bits(a);
  const I odd = ShiftRight<16>(bits) & SplatI(1);
  const I rounded = ShiftRight<16>(bits + SplatI(0x7fff) + odd);
  const I quiet = ShiftRight<16>(bits) | SplatI(64);
  return Bits(Select(IsNan(a), FromBits(quiet), FromBits(rounded)));
}
SLUICE_INLINE void Store(uint16_t* p, F a) { StoreHalves(p, RoundToHalves(a)); }
SLUICE_INLINE void Store(uint16_t* p, F a, M m) { StoreHalves(p, RoundToHalves(a), m); }
// One element.
SLUICE_INLINE float Widen(float x) { return x; }
SLUICE_INLINE float Widen(uint16_t x) {
  const uint32_t bits = static_cast<uint32_t>(x) << 16;
  float value;
  __builtin_memcpy(&value, &bits, 4);
  return value;
}
SLUICE_INLINE void Narrow(float x, float* y) { *y = x; }
SLUICE_INLINE void Narrow(float x, uint16_t* y) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  const bool nan = (bits & 0x7fffffff) > 0x7f800000;
  *y = static_cast<uint16_t>(nan ? bits >> 16 | 64 : rounded);
}

// What a tensor of T would keep of a: where one loop does what several ops would, the results are
// those of the ops.
template <typename T>
SLUICE_INLINE F Rounded(F a);
template <>
SLUICE_INLINE F Rounded<float>(F a) {
  return a;
}
template <>
SLUICE_INLINE F Rounded<uint16_t>(F a) {
  return FromBits(ShiftLeft<16>(RoundToHalves(a)));
}

// How a step of ForLanes loads and stores: all sixteen lanes, or the first few.
// Keep is the value, or zero in the lanes past the end.
struct Whole {
  SLUICE_INLINE F Keep(F a) const { return a; }
  template <typename T>
  SLUICE_INLINE F operator()(const T* p) const {
    return Load(p);
  }
  template <typename T>
  SLUICE_INLINE void operator()(T* p, F a) const {
    Store(p, a);
  }
};
struct Streaming : Whole {
  using Whole::operator();
  SLUICE_INLINE void operator()(float* p, F a) const { Stream(p, a); }
};
struct Masked {
  M m;
  SLUICE_INLINE F Keep(F a) const { return Select(m, a, Splat(0)); }
  template <typename T>
  SLUICE_INLINE F operator()(const T* p) const {
    return Load(p, m);
  }
  template <typename T>
  SLUICE_INLINE void operator()(T* p, F a) const {
    Store(p, a, m);
  }
};
// fn(i, lanes): lanes(p) loads from p, lanes(p, a) stores to it. Lanes past the end read as zero.
template <typename Fn>
SLUICE_INLINE void ForLanes(int64_t n, Fn&& fn) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) fn(i, Whole());
  if (i < n) fn(i, Masked{First(n - i)});
}

// What a long formula will need a page later: the processor does not look so far ahead itself while
// it computes, and its prefetchers stop at the ends of pages. Beyond the end it does nothing.
template <typename T>
SLUICE_INLINE void Prefetch(const T* p) {
  _mm_prefetch(p + 4096 / sizeof(T), _MM_HINT_T0);
}

// From so many elements on an array is stored past the caches: reading its lines first would cost
// as much as writing them, and they would not be found there again.
constexpr int64_t kStreamFrom = int64_t{4} << 20;
SLUICE_INLINE bool Streams(int64_t elements) { return elements >= kStreamFrom; }
// ForLanes of a loop that stores y and nothing else. The caller fences.
template <typename Fn>
SLUICE_INLINE void StreamLanes(const float* y, int64_t n, Fn&& fn) {
  int64_t i = 0;
  if (reinterpret_cast<uintptr_t>(y) % 64 == 0) {
    for (; i + kLanes <= n; i += kLanes) fn(i, Streaming());
  }
  for (; i + kLanes <= n; i += kLanes) fn(i, Whole());
  if (i < n) fn(i, Masked{First(n - i)});
}
// The same if it streams, else ForLanes; fences.
template <typename Fn>
SLUICE_INLINE void ForLanesTo(const uint16_t*, int64_t n, bool, Fn&& fn) {
  ForLanes(n, fn);  // registers of sixteen halves fill no line
}
template <typename Fn>
SLUICE_INLINE void ForLanesTo(const float* y, int64_t n, bool streams, Fn&& fn) {
  if (streams) {
    StreamLanes(y, n, fn);
    _mm_sfence();
  } else {
    ForLanes(n, fn);
  }
}

// The fixed tree over the sixteen lanes: eight with eight, four with four, two, one.
SLUICE_INLINE float FoldSum(F a) {
  const __m256 eight = _mm256_add_ps(LowHalf(a), HighHalf(a));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
SLUICE_INLINE __m128 MaxOf4(__m128 a, __m128 b) {
  return _mm_blendv_ps(_mm_max_ps(a, b), a, _mm_cmpunord_ps(a, a));
}
SLUICE_INLINE float FoldMax(F a) {
  const __m256 low = LowHalf(a), high = HighHalf(a);
  const __m256 eight =
      _mm256_blendv_ps(_mm256_max_ps(low, high), low, _mm256_cmp_ps(low, low, _CMP_UNORD_Q));
  const __m128 four = MaxOf4(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = MaxOf4(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(MaxOf4(two, _mm_movehdup_ps(two)));
}

// Sum of term(i, lanes) over i: four groups of sixteen accumulators, folded by a fixed tree. A term
// must be zero in lanes past the end if what it loads there is zero.
template <typename Term>
SLUICE_INLINE float SumOver(int64_t n, Term&& term) {
  F sum[4] = {Splat(0), Splat(0), Splat(0), Splat(0)};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    for (int g = 0; g < 4; ++g) sum[g] = sum[g] + term(i + g * kLanes, Whole());
  }
  for (; i + kLanes <= n; i += kLanes) sum[0] = sum[0] + term(i, Whole());
  if (i < n) sum[1] = sum[1] + term(i, Masked{First(n - i)});
  return FoldSum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

// The largest of n values, -inf of none; NaN wins.
template <typename T>
SLUICE_INLINE float MaxOver(int64_t n, const T* x) {
  const F infinity = FromBits(SplatI(static_cast<int32_t>(0xff800000)));
  F max[4] = {infinity, infinity, infinity, infinity};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
#pragma GCC unroll 4
    for (int g = 0; g < 4; ++g) max[g] = Max(max[g], Load(x + i + g * kLanes));
  }
  for (; i + kLanes <= n; i += kLanes) max[0] = Max(max[0], Load(x + i));
  if (i < n) {
    const M m = First(n - i);
    max[1] = Max(max[1], Select(m, Load(x + i, m), infinity));
  }
  return FoldMax(Max(Max(max[0], max[1]), Max(max[2], max[3])));
}

}  // namespace sluice::cpu::SLUICE_ISA

#endif  // SLUICE_FRAMEWORK_KERNELS_CPU_LANES_H_
