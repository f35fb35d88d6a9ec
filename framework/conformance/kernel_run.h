// One run of a kernel on host arrays: what tests of kernels share.
#ifndef SLUICE_FRAMEWORK_CONFORMANCE_KERNEL_RUN_H_
#define SLUICE_FRAMEWORK_CONFORMANCE_KERNEL_RUN_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/graph/op_def.h"
#include "framework/kernels/device_support.h"
#include "framework/tensor/array.h"

namespace sluice {

// `array` in the type's precision; of the shard of the logical tensor at `box`.
struct KernelOperand {
  TensorType logical;
  Box box;
  Array array;
};

struct KernelRun {
  std::vector<Array> outputs, updated;  // updated: the inputs afterwards
  std::vector<HostTensor> bytes;        // of outputs, then of inputs: for comparing bits
  int64_t scratch = 0;                  // that the kernel asked for
};

struct KernelCall {
  std::string op, attributes;
  std::vector<KernelOperand> inputs, outputs;  // an output's array may be left empty
  std::vector<bool> updates;                   // by input: the kernel may change it
  std::vector<int> takes;                      // as KernelSpec has them; empty: none
  int calls = 1;                               // of the op, as KernelSpec has them
  int threads = 1;
  int64_t most_scratch = std::numeric_limits<int64_t>::max();
  int64_t alignment = 64;  // on a device operands begin at odd multiples of so many bytes
  // Where even shards lie may be said by the micro-batch: the firing's is `micro`, and boxes that
  // begin at micro times their size are given as strides.
  bool by_micro = false;
  int32_t micro = 0;
  uint64_t seed = 0;
  int64_t step = 0;
  Reduction reduction = Reduction::kNone;
  bool fill_identity = false;
  std::vector<FoldRegion> regions;
  bool check_nan = false;  // of a device: what it writes is looked at behind it
};

// Outputs without an array start as NaN (as -1 for integers), and so does scratch, so that what is
// not written shows.
absl::StatusOr<KernelRun> RunKernel(const KernelCall& call);
// The same on a device of another kind, which is opened for it, of a card's or an emulation's
// memory. Operands lie apart, in an order of no meaning; what lies between them must stay.
absl::StatusOr<KernelRun> RunKernelOn(const DeviceSupport& support, DeviceKind kind,
                                      const KernelCall& call);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_CONFORMANCE_KERNEL_RUN_H_
