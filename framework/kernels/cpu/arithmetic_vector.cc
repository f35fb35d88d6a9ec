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

template <typename Op>
void Both(const float* a, const float* b, float* y, int64_t n) {
  ForLanesTo(y, n, a != y && b != y && Streams(n),
             [&](int64_t i, auto lanes) { lanes(y + i, Op()(lanes(a + i), lanes(b + i))); });
}
template <typename Op>
void ScalarA(const float* a, const float* b, float* y, int64_t n) {
  const F scalar = Splat(*a);
  ForLanes(n, [&](int64_t i, auto lanes) { lanes(y + i, Op()(scalar, lanes(b + i))); });
}
template <typename Op>
void ScalarB(const float* a, const float* b, float* y, int64_t n) {
  const F scalar = Splat(*b);
  ForLanes(n, [&](int64_t i, auto lanes) { lanes(y + i, Op()(lanes(a + i), scalar)); });
}
template <typename Op>
constexpr ArithmeticVector::Binary BinaryOf() {
  return {Both<Op>, ScalarA<Op>, ScalarB<Op>};
}

void Scale(const float* x, float factor, float* y, int64_t n) {
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

// Round to nearest even; NaN stays NaN.
void ToBFloat16(const float* x, uint16_t* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    uint32_t bits;
    __builtin_memcpy(&bits, x + i, 4);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    const bool nan = (bits & 0x7fffffff) > 0x7f800000;
    y[i] = static_cast<uint16_t>(nan ? bits >> 16 | 64 : rounded);
  }
}

void FromBFloat16(const uint16_t* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = static_cast<uint32_t>(x[i]) << 16;
    __builtin_memcpy(y + i, &bits, 4);
  }
}

}  // namespace

extern const ArithmeticVector kArithmetic = {
    BinaryOf<AddOf>(),
    BinaryOf<SubtractOf>(),
    BinaryOf<MultiplyOf>(),
    BinaryOf<DivideOf>(),
    Both<MaxOf>,
    Both<MinOf>,
    AddStreaming,
    CopyStreaming,
    Copy,
    TransposeInto,
    Scale,
    Fill,
    SquareRoot,
    ToBFloat16,
    FromBFloat16,
};

}  // namespace sluice::cpu::SLUICE_ISA
