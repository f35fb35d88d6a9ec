// Convolutions and their gradients through oneDNN: primitives made at prepare for fixed shapes,
// with one thread each; our own threads take parts of the batch, or output channels.
#ifndef SLUICE_FRAMEWORK_KERNELS_CPU_CONVOLUTION_H_
#define SLUICE_FRAMEWORK_KERNELS_CPU_CONVOLUTION_H_

#include <cstdint>
#include <memory>
#include <string>

#include "framework/kernels/cpu/convolution_primitive.h"
#include "framework/kernels/cpu/parallel.h"

namespace sluice::cpu {

// The three tensors of a convolution; a pass writes one of them.
struct ConvolutionOperands {
  std::byte *x, *w, *y;
};

class Convolution {
 public:
  static absl::StatusOr<std::shared_ptr<const Convolution>> Prepare(ConvolutionPass pass,
                                                                    const ConvolutionShape& shape,
                                                                    int threads);
  virtual ~Convolution() = default;
  virtual void Run(const KernelContext& context, const ConvolutionOperands& operands,
                   std::byte* scratch) const = 0;
  virtual int64_t scratch() const = 0;
  // What oneDNN calls the implementation that it chose: "brgconv:avx512_core"; empty where it is
  // not used.
  virtual std::string implementation() const = 0;
};

// How many threads work on `pieces` of a convolution.
int64_t ConvolutionWorkers(const ConvolutionShape& shape, int threads, int64_t pieces);

}  // namespace sluice::cpu

#endif  // SLUICE_FRAMEWORK_KERNELS_CPU_CONVOLUTION_H_
