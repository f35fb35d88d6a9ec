#include "framework/kernels/cpu/lanes.h"
#include "framework/kernels/cpu/tiles.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu::SLUICE_ISA {
namespace {

struct AddOf {
  SLUICE_INLINE F operator()(F a, F b) const { return a + b; }
};
struct SubtractOf {
  SLUICE_INLINE F operator()(F a, F b) const { return a - b; }
};
struct MultiplyOf {
  SLUICE_INLINE F operator()(F a, F b) const { return a * b; }
};
struct DivideOf {
  SLUICE_INLINE F operator()(F a, F b) const { return a / b; }
};
struct MaxOf {
  SLUICE_INLINE F operator()(F a, F b) const { return Max(a, b); }
};
struct MinOf {
  SLUICE_INLINE F operator()(F a, F b) const { return Min(a, b); }
};

template <typename Op, typename T>
void Both(const T* a, const T* b, T* y, int64_t n) {
  ForLanesTo(y, n, a != y && b != y && Streams(n),
             [&](int64_t i, auto lanes) { lanes(y + i, Op()(lanes(a + i), lanes(b + i))); });
}
template <typename Op, typename T>
void ScalarA(const T* a, const T* b, T* y, int64_t n) {
  const F scalar = Splat(Widen(*a));
  ForLanes(n, [&](int64_t i, auto lanes) { lanes(y + i, Op()(scalar, lanes(b + i))); });
}
template <typename Op, typename T>
void ScalarB(const T* a, const T* b, T* y, int64_t n) {
  const F scalar = Splat(Widen(*b));
  ForLanes(n, [&](int64_t i, auto lanes) { lanes(y + i, Op()(lanes(a + i), scalar)); });
}
template <typename Op, typename T>
constexpr typename ElementwiseVector<T>::Binary BinaryOf() {
  return {Both<Op, T>, ScalarA<Op, T>, ScalarB<Op, T>};
}

void PairUp(const BFloat16* a, const BFloat16* b, BFloat16* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t pair = a[i] | (b == nullptr ? 0u : static_cast<uint32_t>(b[i]) << 16);
    __builtin_memcpy(y + 2 * i, &pair, 4);
  }
}

template <typename T>
void AddToF32(const T* x, float* sum, int64_t n) {
  ForLanes(n, [&](int64_t i, auto lanes) { lanes(sum + i, lanes(sum + i) + lanes(x + i)); });
}

template <typename T>
void Scale(const T* x, float factor, T* y, int64_t n) {
  const F scalar = Splat(factor);
  ForLanesTo(y, n, x != y && Streams(n),
             [&](int64_t i, auto lanes) { lanes(y + i, lanes(x + i) * scalar); });
}

void AddStreaming(const float* a, const float* b, float* y, int64_t n) {
  StreamLanes(y, n, [&](int64_t i, auto lanes) { lanes(y + i, lanes(a + i) + lanes(b + i)); });
}

void CopyStreaming(const float* x, float* y, int64_t n) {
  StreamLanes(y, n, [&](int64_t i, auto lanes) { lanes(y + i, lanes(x + i)); });
}

void Copy(const float* x, float* y, int64_t n) {
  ForLanesTo(y, n, Streams(n), [&](int64_t i, auto lanes) { lanes(y + i, lanes(x + i)); });
}

void Fill(float value, float* y, int64_t n) {
  const F scalar = Splat(value);
  ForLanesTo(y, n, Streams(n), [&](int64_t i, auto lanes) { lanes(y + i, scalar); });
}

void SquareRoot(const float* x, float* y, int64_t n) {
  ForLanes(n, [&](int64_t i, auto lanes) { lanes(y + i, Sqrt(lanes(x + i))); });
}

void ToBFloat16(const float* x, BFloat16* y, int64_t n) {
  ForLanes(n, [&](int64_t i, auto lanes) { lanes(y + i, lanes(x + i)); });
}

void FromBFloat16(const BFloat16* x, float* y, int64_t n) {
  ForLanesTo(y, n, Streams(n), [&](int64_t i, auto lanes) { lanes(y + i, lanes(x + i)); });
}

template <typename T>
constexpr ElementwiseVector<T> LoopsOf() {
  return {BinaryOf<AddOf, T>(),
          BinaryOf<SubtractOf, T>(),
          BinaryOf<MultiplyOf, T>(),
          BinaryOf<DivideOf, T>(),
          Both<MaxOf, T>,
          Both<MinOf, T>,
          Scale<T>,
          AddToF32<T>};
}

}  // namespace

extern const ElementwiseVector<float> kElementwise = LoopsOf<float>();
extern const ElementwiseVector<BFloat16> kElementwiseBf16 = LoopsOf<BFloat16>();
extern const ArithmeticVector kArithmetic = {
    AddStreaming, CopyStreaming, Copy,       TransposeInto, PairUp,
    Fill,         SquareRoot,    ToBFloat16, FromBFloat16,
};

}  // namespace sluice::cpu::SLUICE_ISA
