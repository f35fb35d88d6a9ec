// How long one kernel takes on one machine, as measured: a grid of its sizes (rows and columns of a
// product, bytes of an elementwise op) and the time at each point, interpolated between. A pure
// value; the arithmetic is exact enough to give every rank the same nanoseconds.
#ifndef SLUICE_FRAMEWORK_MACHINE_KERNEL_TIMES_H_
#define SLUICE_FRAMEWORK_MACHINE_KERNEL_TIMES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace sluice {

struct KernelTimes {
  std::string kernel;                       // "matmul": the op's name
  int64_t threads = 1;                      // that run it
  bool cold = false;                        // no operand was in the cache of a core
  std::vector<std::vector<int64_t>> sizes;  // points of each axis, ascending
  std::vector<int64_t> nanoseconds;         // by point, the last axis innermost

  // Linear between points along each axis. Past the last point the time goes on as steeply as
  // between the last two, never falling; before the first it stays. `at` has a size per axis.
  int64_t At(absl::Span<const int64_t> at) const;

  // Name and value of the text form: "matmul.1", "matmul.1.cold", and
  // "16,64/128/32,512:90,80,700,640".
  std::string Name() const;
  std::string ValueText() const;
  // Errors say what of the two is wrong.
  static absl::StatusOr<KernelTimes> Parse(absl::string_view name, absl::string_view value);
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_MACHINE_KERNEL_TIMES_H_
