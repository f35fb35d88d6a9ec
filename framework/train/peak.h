// How fast this machine multiplies matrices, measured the way that training runs: as a small
// program on one device a core. What "share of peak" is a share of.
#ifndef SLUICE_FRAMEWORK_TRAIN_PEAK_H_
#define SLUICE_FRAMEWORK_TRAIN_PEAK_H_

#include "absl/status/statusor.h"
#include "framework/tensor/dtype.h"

namespace sluice {

// Floating-point operations a second of matmuls of the dtype, f32 or bf16, on `devices` devices;
// takes about half a second.
absl::StatusOr<double> MeasureMatmulPeak(int devices, DType dtype);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_PEAK_H_
