// One float in the place of the sixteen of cpu/lanes.h, under the same names, and with them the
// formulas that a CPU and a GPU share: Exp, Log, GeluOf and so on give the bits of the CPU. For the
// files of this package only.
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_SCALAR_LANES_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_SCALAR_LANES_H_

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

#include "framework/kernels/update_steps.h"

#define SLUICE_INLINE __device__ __forceinline__

namespace sluice::cuda {

using F = float;
using I = uint32_t;  // words wrap around; where they are numbers, they are signed ones
using M = bool;

template <typename To, typename From>
SLUICE_INLINE To BitCast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}

SLUICE_INLINE F Splat(float x) { return x; }
SLUICE_INLINE I SplatI(int32_t x) { return static_cast<I>(x); }
SLUICE_INLINE F Fma(F a, F b, F c) { return fmaf(a, b, c); }
SLUICE_INLINE F Sqrt(F a) { return sqrtf(a); }
SLUICE_INLINE M Less(F a, F b) { return a < b; }
SLUICE_INLINE M AtMost(F a, F b) { return a <= b; }
SLUICE_INLINE M IsNan(F a) { return a != a; }
SLUICE_INLINE F Select(M m, F yes, F no) { return m ? yes : no; }
// The larger (smaller); b if either is NaN, which fmaxf and fminf would pass over.
SLUICE_INLINE F MaxOrSecond(F a, F b) { return a > b ? a : b; }
SLUICE_INLINE F MinOrSecond(F a, F b) { return a < b ? a : b; }
template <int n>
SLUICE_INLINE I ShiftLeft(I a) {
  return a << n;
}
template <int n>
SLUICE_INLINE I ShiftRight(I a) {
  return a >> n;
}
template <int n>
SLUICE_INLINE I ShiftRightSigned(I a) {
  return static_cast<I>(static_cast<int32_t>(a) >> n);
}
// What nvcc makes of 1 / a where a is normal and not too large, to the bit. Of itself it looks
// first and branches, so that elements of a pack are computed one behind the other: 57 instructions
// for a gradient of gelu and its sum where there are 48 now (counted in the code for sm_90).
SLUICE_INLINE F Reciprocal(F a) {
  const F near = __fdividef(1, a);
  return fmaf(near, fmaf(-a, near, 1), near);
}
SLUICE_INLINE F ToFloat(I a) { return static_cast<float>(static_cast<int32_t>(a)); }
SLUICE_INLINE I Bits(F a) { return BitCast<I>(a); }
SLUICE_INLINE F FromBits(I a) { return BitCast<F>(a); }

#include "framework/kernels/formulas.inc"

// From memory: eight neighbours, which every processor has at hand after the first read. To choose
// among constants takes ten instructions of a sort of which it makes half as many as of sums.
__device__ const float kEighths[8] = {1,        kEighth1, kEighth2, kEighth3,
                                      kEighth4, kEighth5, kEighth6, kEighth7};
SLUICE_INLINE F PowerOfEighths(I eighths) { return kEighths[eighths & 7]; }

// One element as a number and back. The bits of a bf16 are a uint16_t, as on a CPU.
SLUICE_INLINE F Widen(float x) { return x; }
SLUICE_INLINE F Widen(uint16_t x) { return FromBits(static_cast<I>(x) << 16); }
SLUICE_INLINE void Narrow(F x, float* y) { *y = x; }
SLUICE_INLINE void Narrow(F x, uint16_t* y) { *y = BitCast<uint16_t>(__float2bfloat16_rn(x)); }

// What a tensor of T would keep of a: where one kernel does what several ops would, the results are
// those of the ops.
template <typename T>
SLUICE_INLINE F Rounded(F a) {
  T kept;
  Narrow(a, &kept);
  return Widen(kept);
}

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_SCALAR_LANES_H_
