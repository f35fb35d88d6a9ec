#include "framework/kernels/cpu/lanes.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu::SLUICE_ISA {
namespace {

// Which elements of the variable and of its states a rule changes, sixteen at a time: fn(i, lanes,
// at), where lanes(gradient + i) loads their gradients, at(table) the elements of a table, and
// at(table, a) stores these.

// All n, in order.
struct InOrder {
  int64_t n;

  template <typename Lanes>
  struct At {
    int64_t i;
    Lanes lanes;
    SLUICE_INLINE F operator()(const float* p) const { return lanes(p + i); }
    SLUICE_INLINE void operator()(float* p, F a) const { lanes(p + i, a); }
  };
  template <typename Fn, typename... Table>
  SLUICE_INLINE void operator()(Fn&& fn, const Table*...) const {
    ForLanes(n, [&](int64_t i, auto lanes) { fn(i, lanes, At<decltype(lanes)>{i, lanes}); });
  }
};

// Those at n ids. They are asked for kAhead ids ahead, as the rows of a large table are in no
// cache.
struct AtIds {
  const int32_t* ids;
  int64_t n;
  static constexpr int64_t kAhead = 64;

  struct At {
    const int32_t* ids;
    int64_t count;
    SLUICE_INLINE F operator()(const float* p) const { return LoadAt(p, ids); }
    SLUICE_INLINE void operator()(float* p, F a) const { StoreAt(p, ids, a, count); }
  };
  template <typename Table>
  SLUICE_INLINE void Fetch(const Table* table, int64_t begin) const {
    for (int64_t l = 0; l < kLanes; ++l) _mm_prefetch(table + ids[begin + l], _MM_HINT_T0);
  }
  template <typename Fn, typename... Table>
  SLUICE_INLINE void operator()(Fn&& fn, const Table*... tables) const {
    int64_t i = 0;
    for (; i < kAhead && i + kLanes <= n; i += kLanes) (Fetch(tables, i), ...);
    for (i = 0; i + kLanes <= n; i += kLanes) {
      if (i + kAhead + kLanes <= n) (Fetch(tables, i + kAhead), ...);
      fn(i, Whole(), At{ids + i, kLanes});
    }
    if (i == n) return;
    int32_t last[kLanes];
    for (int64_t l = 0; l < kLanes; ++l) last[l] = ids[i + l < n ? i + l : i];
    fn(i, Masked{First(n - i)}, At{last, n - i});
  }
};

template <typename Elements>
SLUICE_INLINE void SgdOver(const Elements& elements, const SgdStep& step, const float* gradient,
                           float* variable) {
  const SgdLanes s = InLanes(step);
  elements([&](int64_t i, auto lanes,
               auto at) { at(variable, SgdOf(s, lanes(gradient + i), at(variable))); },
           variable);
}

template <bool nesterov, typename Elements>
SLUICE_INLINE void SgdWithState(const Elements& elements, const SgdStep& step,
                                const float* gradient, float* variable, float* momentum) {
  const SgdLanes s = InLanes(step);
  elements(
      [&](int64_t i, auto lanes, auto at) {
        F m = at(momentum);
        const F w = SgdMomentumOf<nesterov>(s, lanes(gradient + i), at(variable), &m);
        at(momentum, m);
        at(variable, w);
      },
      variable, momentum);
}
template <typename Elements>
SLUICE_INLINE void SgdMomentumOver(const Elements& elements, const SgdStep& step,
                                   const float* gradient, float* variable, float* momentum) {
  if (step.nesterov) return SgdWithState<true>(elements, step, gradient, variable, momentum);
  SgdWithState<false>(elements, step, gradient, variable, momentum);
}

template <typename Elements>
SLUICE_INLINE void AdamWOver(const Elements& elements, const AdamWStep& step, const float* gradient,
                             float* variable, float* m, float* v) {
  const AdamLanes s = InLanes(step);
  elements(
      [&](int64_t i, auto lanes, auto at) {
        F first = at(m), second = at(v);
        const F w = AdamWOf(s, lanes(gradient + i), at(variable), &first, &second);
        at(m, first);
        at(v, second);
        at(variable, w);
      },
      variable, m, v);
}

template <typename Elements>
SLUICE_INLINE void AdagradOver(const Elements& elements, const AdagradStep& step,
                               const float* gradient, float* variable, float* sum) {
  const AdagradLanes s = InLanes(step);
  elements(
      [&](int64_t i, auto lanes, auto at) {
        F grown = at(sum);
        const F w = AdagradOf(s, lanes(gradient + i), at(variable), &grown);
        at(sum, grown);
        at(variable, w);
      },
      variable, sum);
}

template <typename Elements>
SLUICE_INLINE void FtrlOver(const Elements& elements, const FtrlStep& step, const float* gradient,
                            float* variable, float* z, float* n) {
  const FtrlLanes s = InLanes(step);
  elements(
      [&](int64_t i, auto lanes, auto at) {
        F kept = at(z), grown = at(n);
        const F w = FtrlOf(s, lanes(gradient + i), at(variable), &kept, &grown);
        at(z, kept);
        at(n, grown);
        at(variable, w);
      },
      variable, z, n);
}

void Sgd(const SgdStep& step, const float* gradient, float* variable, int64_t n) {
  SgdOver(InOrder{n}, step, gradient, variable);
}
void SgdMomentum(const SgdStep& step, const float* gradient, float* variable, float* momentum,
                 int64_t n) {
  SgdMomentumOver(InOrder{n}, step, gradient, variable, momentum);
}
void AdamW(const AdamWStep& step, const float* gradient, float* variable, float* m, float* v,
           int64_t n) {
  AdamWOver(InOrder{n}, step, gradient, variable, m, v);
}
void Adagrad(const AdagradStep& step, const float* gradient, float* variable, float* sum,
             int64_t n) {
  AdagradOver(InOrder{n}, step, gradient, variable, sum);
}
void Ftrl(const FtrlStep& step, const float* gradient, float* variable, float* z, float* n,
          int64_t count) {
  FtrlOver(InOrder{count}, step, gradient, variable, z, n);
}

void SgdAtIds(const SgdStep& step, const float* gradient, const int32_t* ids, float* variable,
              int64_t n) {
  SgdOver(AtIds{ids, n}, step, gradient, variable);
}
void SgdMomentumAtIds(const SgdStep& step, const float* gradient, const int32_t* ids,
                      float* variable, float* momentum, int64_t n) {
  SgdMomentumOver(AtIds{ids, n}, step, gradient, variable, momentum);
}
void AdamWAtIds(const AdamWStep& step, const float* gradient, const int32_t* ids, float* variable,
                float* m, float* v, int64_t n) {
  AdamWOver(AtIds{ids, n}, step, gradient, variable, m, v);
}
void AdagradAtIds(const AdagradStep& step, const float* gradient, const int32_t* ids,
                  float* variable, float* sum, int64_t n) {
  AdagradOver(AtIds{ids, n}, step, gradient, variable, sum);
}
void FtrlAtIds(const FtrlStep& step, const float* gradient, const int32_t* ids, float* variable,
               float* z, float* n, int64_t count) {
  FtrlOver(AtIds{ids, count}, step, gradient, variable, z, n);
}

void AdamDirection(const AdamWStep& step, const float* gradient, const float* variable, float* m,
                   float* v, float* direction, int64_t n) {
  const AdamLanes s = InLanes(step);
  ForLanes(n, [&](int64_t i, auto lanes) {
    F first = lanes(m + i), second = lanes(v + i);
    const F d = AdamDirectionOf(s, lanes(gradient + i), lanes(variable + i), &first, &second);
    lanes(m + i, first);
    lanes(v + i, second);
    lanes(direction + i, d);
  });
}

}  // namespace

extern const OptimizerVector kOptimizer = {Sgd, SgdMomentum, AdamW, AdamDirection, Adagrad, Ftrl};
extern const OptimizerAtIdsVector kOptimizerAtIds = {SgdAtIds, SgdMomentumAtIds, AdamWAtIds,
                                                     AdagradAtIds, FtrlAtIds};

}  // namespace sluice::cpu::SLUICE_ISA
