// bfloat16 of CUDA kernels: storage and conversions, no arithmetic. A closed list, as
// cuda_runtime_api.h.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_INCLUDE_CUDA_BF16_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_INCLUDE_CUDA_BF16_H_

#include <cstdint>

struct __nv_bfloat16_raw {
  unsigned short x;
};

struct alignas(2) [[gnu::may_alias]] __nv_bfloat16 {
  __nv_bfloat16() = default;
  __nv_bfloat16(const __nv_bfloat16_raw& raw) : __x(raw.x) {}
  operator __nv_bfloat16_raw() const { return {__x}; }

 protected:
  unsigned short __x;
};
typedef __nv_bfloat16 nv_bfloat16;

struct alignas(4) [[gnu::may_alias]] __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) {
  return static_cast<__nv_bfloat16_raw>(value).x;
}
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return __nv_bfloat16_raw{bits}; }

inline float __bfloat162float(__nv_bfloat16 value) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(__bfloat16_as_ushort(value)) << 16);
}

// To nearest, ties to even. Hardware has one NaN.
inline __nv_bfloat16 __float2bfloat16_rn(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return __ushort_as_bfloat16(0x7fff);
  const uint32_t rounded = bits + 0x7fffu + (bits >> 16 & 1u);
  return __ushort_as_bfloat16(static_cast<unsigned short>(rounded >> 16));
}
inline __nv_bfloat16 __float2bfloat16(float value) { return __float2bfloat16_rn(value); }

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_INCLUDE_CUDA_BF16_H_
