#include "framework/ops/cases.h"

namespace sluice {
std::vector<TensorType> Equal(size_t count, const TensorType& type) {
  return std::vector<TensorType>(count, type);
}

Axes Elements() { return {{256, 4096, 32768, 262144, 2097152}}; }
Axes RowsByLength() { return {{32, 256, 2048}, {64, 256, 1024}}; }
Axes Heads() { return {{4, 64}, {32, 64, 128, 256}, {16, 32, 64}}; }
Axes ManyRows() { return {{32, 128, 512, 2048}, {48, 192, 768}, {48, 192, 768}}; }
Axes MuchDepth() { return {{48, 192, 768}, {48, 192, 768}, {32, 128, 512, 2048}}; }

OpTiming NotTimed(const char* because) { return {{}, nullptr, because}; }

}  // namespace sluice
