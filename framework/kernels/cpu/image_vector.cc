#include "framework/kernels/cpu/lanes.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu::SLUICE_ISA {
namespace {

void Normalize(const uint8_t* x, const float* mean, const float* factor, int64_t period,
               int64_t first, float* y, int64_t n) {
  int64_t phase = first;
  ForLanesTo(y, n, Streams(n), [&](int64_t i, auto lanes) {
    lanes(y + i, (lanes(x + i) - Load(mean + phase)) * Load(factor + phase));
    phase += kLanes;
    if (phase == period) phase = 0;
  });
}

}  // namespace

extern const ImageVector kImage = {Normalize};

}  // namespace sluice::cpu::SLUICE_ISA
