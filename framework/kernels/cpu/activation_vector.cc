#include "framework/kernels/cpu/lanes.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu::SLUICE_ISA {
namespace {

// The tanh form of gelu is x times the sigmoid of 2u, u = sqrt(2/pi) (x + 0.044715 x^3): one
// exponential, and no cancellation where tanh nears -1.
constexpr float kTwiceScale = 1.59576912160573071176f, kCubic = 0.044715f;

// e^-2u as the power of two of k + rest, for x in [-10, 10]: beyond, e^2u and e^-2u are nothing
// beside 1, and gelu is 0 or x.
struct Exponent {
  F k_rounded, rest;
};
constexpr float kFar = 10;
SLUICE_INLINE Exponent ExponentOf(F x) {
  constexpr float kLinear = -kTwiceScale * kLog2E;
  const F z = x * Fma(x * x, Splat(kLinear * kCubic), Splat(kLinear));
  const F k_rounded = z + Splat(kRounding);
  return {k_rounded, z - (k_rounded - Splat(kRounding))};
}

template <typename T>
void Gelu(const T* x, T* y, int64_t n) {
  ForLanesTo(y, n, x != y && Streams(n), [&](int64_t i, auto lanes) {
    const F a = MaxOrSecond(Splat(-kFar), lanes(x + i));
    const Exponent z = ExponentOf(MinOrSecond(Splat(kFar), a));
    lanes(y + i, a / OnePlusPowerOfTwo(z.k_rounded, z.rest));
  });
}

// With s the sigmoid, 1 - s is e^-2u s, which keeps the digits that a difference loses.
template <typename T>
void GeluGradient(const T* x, const T* dy, T* dx, int64_t n) {
  ForLanesTo(dx, n, x != dx && dy != dx && Streams(n), [&](int64_t i, auto lanes) {
    Prefetch(x + i);
    Prefetch(dy + i);
    const F a = MinOrSecond(Splat(kFar), MaxOrSecond(Splat(-kFar), lanes(x + i)));
    const Exponent z = ExponentOf(a);
    const F e = PowerOfTwo(z.k_rounded, z.rest), s = Splat(1) / (Splat(1) + e);
    const F slope_of_u = Fma(a * a, Splat(3 * kTwiceScale * kCubic), Splat(kTwiceScale));
    lanes(dx + i, Fma(a * slope_of_u, e * s * s, s) * lanes(dy + i));
  });
}

// The normal distribution's Phi(x) and e^(-x^2/2), which phi is a multiple of. By Abramowitz and
// Stegun 7.1.26, to 8e-8: half a polynomial in t = 1/(1 + p |x|/sqrt(2)) times the exponential is
// what the tail holds, so that Phi of a negative x keeps its digits.
struct Normal {
  F phi, exponential;
};
SLUICE_INLINE Normal NormalOf(F x) {
  constexpr float kP = 0.3275911f * 0.70710678118654752440f;
  const F zero = Splat(0), size = MaxOrSecond(zero - x, x);
  const F t = Splat(1) / Fma(size, Splat(kP), Splat(1));
  F half = Splat(0.5f * 1.061405429f);
  half = Fma(half, t, Splat(0.5f * -1.453152027f));
  half = Fma(half, t, Splat(0.5f * 1.421413741f));
  half = Fma(half, t, Splat(0.5f * -0.284496736f));
  half = Fma(half, t, Splat(0.5f * 0.254829592f));
  const F exponential = Exp(x * x * Splat(-0.5f)), tail = half * t * exponential;
  return {Select(AtMost(x, zero), tail, Splat(1) - tail), exponential};
}

template <typename T>
void GeluErf(const T* x, T* y, int64_t n) {
  ForLanesTo(y, n, x != y && Streams(n), [&](int64_t i, auto lanes) {
    const F a = lanes(x + i);
    lanes(y + i, a * NormalOf(a).phi);
  });
}

template <typename T>
void GeluErfGradient(const T* x, const T* dy, T* dx, int64_t n) {
  constexpr float kDensity = 0.39894228040143267794f;  // phi(0)
  ForLanesTo(dx, n, x != dx && dy != dx && Streams(n), [&](int64_t i, auto lanes) {
    const F a = lanes(x + i);
    const Normal normal = NormalOf(a);
    lanes(dx + i, Fma(a * normal.exponential, Splat(kDensity), normal.phi) * lanes(dy + i));
  });
}

template <typename T>
void Silu(const T* x, T* y, int64_t n) {
  ForLanesTo(y, n, x != y && Streams(n), [&](int64_t i, auto lanes) {
    const F a = lanes(x + i);
    lanes(y + i, a / (Splat(1) + Exp(Splat(0) - a)));
  });
}

template <typename T>
void SiluGradient(const T* x, const T* dy, T* dx, int64_t n) {
  ForLanesTo(dx, n, x != dx && dy != dx && Streams(n), [&](int64_t i, auto lanes) {
    const F a = lanes(x + i), s = Splat(1) / (Splat(1) + Exp(Splat(0) - a));
    lanes(dx + i, Fma(a * s, Splat(1) - s, s) * lanes(dy + i));
  });
}

template <typename T>
void Sigmoid(const T* x, T* y, int64_t n) {
  ForLanesTo(y, n, x != y && Streams(n), [&](int64_t i, auto lanes) {
    lanes(y + i, Splat(1) / (Splat(1) + Exp(Splat(0) - lanes(x + i))));
  });
}

template <typename T>
void SigmoidGradient(const T* y, const T* dy, T* dx, int64_t n) {
  ForLanesTo(dx, n, y != dx && dy != dx && Streams(n), [&](int64_t i, auto lanes) {
    const F s = lanes(y + i);
    lanes(dx + i, s * (Splat(1) - s) * lanes(dy + i));
  });
}

// 1 - 2 / (1 + e^2x) loses the digits of a small x to the one: there its series, to x^9.
template <typename T>
void Tanh(const T* x, T* y, int64_t n) {
  ForLanesTo(y, n, x != y && Streams(n), [&](int64_t i, auto lanes) {
    const F a = lanes(x + i), square = a * a;
    F series = Fma(square, Splat(62.0f / 2835), Splat(-17.0f / 315));
    series = Fma(series, square, Splat(2.0f / 15));
    series = Fma(series, square, Splat(-1.0f / 3));
    const F small = Fma(a * square, series, a);
    const F large = Splat(1) - Splat(2) / (Splat(1) + Exp(a + a));
    lanes(y + i, Select(Less(square, Splat(0.0625f)), small, large));
  });
}

template <typename T>
void TanhGradient(const T* y, const T* dy, T* dx, int64_t n) {
  ForLanesTo(dx, n, y != dx && dy != dx && Streams(n), [&](int64_t i, auto lanes) {
    const F t = lanes(y + i);
    lanes(dx + i, (Splat(1) - t * t) * lanes(dy + i));
  });
}

template <typename T>
void Relu(const T* x, T* y, int64_t n) {
  ForLanesTo(y, n, x != y && Streams(n),
             [&](int64_t i, auto lanes) { lanes(y + i, Rectify(lanes(x + i))); });
}

template <typename T>
void ReluGradient(const T* y, const T* dy, T* dx, int64_t n) {
  ForLanesTo(dx, n, y != dx && dy != dx && Streams(n),
             [&](int64_t i, auto lanes) { lanes(dx + i, ReluSlope(lanes(y + i), lanes(dy + i))); });
}

template <typename T>
void Softmax(const T* x, T* y, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r, x += width, y += width) {
    const F max = Splat(MaxOver(width, x));
    const float sum = SumOver(width, [&](int64_t i, auto lanes) {
      const F e = Exp(lanes(x + i) - max);
      lanes(y + i, e);
      return lanes.Keep(e);
    });
    const F factor = Splat(1 / sum);
    ForLanes(width, [&](int64_t i, auto lanes) { lanes(y + i, lanes(y + i) * factor); });
  }
}

template <typename T>
void SoftmaxGradient(const T* y, const T* dy, T* dx, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r, y += width, dy += width, dx += width) {
    const F dot =
        Splat(SumOver(width, [&](int64_t i, auto lanes) { return lanes(y + i) * lanes(dy + i); }));
    ForLanes(width,
             [&](int64_t i, auto lanes) { lanes(dx + i, lanes(y + i) * (lanes(dy + i) - dot)); });
  }
}

// The words of blocks [block, block + 16), in order, as tensor/random.h makes them; block is a
// multiple of 16. Lanes take the blocks in an order that four interleavings undo.
SLUICE_INLINE void PhiloxWords(const Draw& draw, int64_t block, int32_t* words) {
  static const int32_t kOrder[kLanes] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
  I c0 = SplatI(static_cast<int32_t>(block)) + LoadI(kOrder);
  I c1 = SplatI(static_cast<int32_t>(block >> 32));
  I c2 = SplatI(static_cast<int32_t>(draw.step));
  I c3 = SplatI(static_cast<int32_t>(draw.step >> 32));
  const I m0 = SplatI(static_cast<int32_t>(0xD2511F53)),
          m1 = SplatI(static_cast<int32_t>(0xCD9E8D57));
  uint32_t k0 = draw.key0, k1 = draw.key1;
  for (int round = 0; round < 10; ++round) {
    I high0, low0, high1, low1;
    MultiplyWide(m0, c0, &high0, &low0);
    MultiplyWide(m1, c2, &high1, &low1);
    c0 = high1 ^ c1 ^ SplatI(static_cast<int32_t>(k0));
    c2 = high0 ^ c3 ^ SplatI(static_cast<int32_t>(k1));
    c1 = low1;
    c3 = low0;
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  StoreTransposed(c0, c1, c2, c3, words);
}

template <typename T>
void Dropout(const Draw& draw, uint32_t threshold, float scale, int64_t first, const T* x, T* y,
             int64_t n) {
  constexpr int64_t kChunk = 4 * kLanes;
  int32_t words[kChunk];
  const F factor = Splat(scale), zero = Splat(0);
  const I limit = SplatI(static_cast<int32_t>(threshold));
  const int64_t end = first + n;
  for (int64_t chunk = first / kChunk * kChunk; chunk < end; chunk += kChunk) {
    PhiloxWords(draw, chunk / 4, words);
    const int64_t from = chunk < first ? first : chunk;
    const int64_t to = chunk + kChunk < end ? chunk + kChunk : end;
    const T* in = x + (from - first);
    T* out = y + (from - first);
    if (to - from == kChunk) {
      for (int i = 0; i < kChunk; i += kLanes) {
        const M keep = AtLeastUnsigned(LoadI(words + i), limit);
        Store(out + i, Select(keep, Load(in + i) * factor, zero));
      }
    } else {
      for (int64_t i = 0; i < to - from; ++i) {
        const bool keep = static_cast<uint32_t>(words[from - chunk + i]) >= threshold;
        Narrow(keep ? Widen(in[i]) * scale : 0, out + i);
      }
    }
  }
}

template <typename T>
constexpr ActivationVector<T> LoopsOf() {
  return {Gelu<T>,         GeluErf<T>,
          Silu<T>,         Sigmoid<T>,
          Tanh<T>,         Relu<T>,
          GeluGradient<T>, GeluErfGradient<T>,
          SiluGradient<T>, SigmoidGradient<T>,
          TanhGradient<T>, ReluGradient<T>,
          Softmax<T>,      SoftmaxGradient<T>,
          Dropout<T>};
}

}  // namespace

extern const ActivationVector<float> kActivation = LoopsOf<float>();
extern const ActivationVector<BFloat16> kActivationBf16 = LoopsOf<BFloat16>();

}  // namespace sluice::cpu::SLUICE_ISA
