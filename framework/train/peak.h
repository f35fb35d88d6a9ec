// How fast this machine multiplies matrices, measured the way that training runs: as a small
// program on one device a core. What "share of peak" is a share of.
#ifndef SLUICE_FRAMEWORK_TRAIN_PEAK_H_
#define SLUICE_FRAMEWORK_TRAIN_PEAK_H_

#include "absl/status/statusor.h"

namespace sluice {

// Floating-point operations a second of f32 matmuls on `devices` devices; takes about half a
// second.
absl::StatusOr<double> MeasureMatmulPeak(int devices);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_PEAK_H_
