// Giving kernels to a stream. For the files of this package only.
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_LAUNCH_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_LAUNCH_H_

#include <cuda_dynamic_shared.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "framework/device/cuda_device.h"
#include "framework/kernels/kernel.h"

namespace sluice::cuda {

struct Grid {
  dim3 blocks, threads;
  size_t shared_bytes = 0;  // dynamic
};

// The stream of a firing, which is of a CUDA device.
inline CudaStream& StreamOf(const KernelContext& context) {
  return *static_cast<CudaStream*>(context.stream);
}

// Calls kernel(arguments) on the device, later. Arguments are converted to the kernel's types here.
template <typename... Parameters, typename... Arguments>
absl::Status Launch(const KernelContext& context, void (*kernel)(Parameters...), const Grid& grid,
                    Arguments... arguments) {
  std::tuple<std::remove_cv_t<Parameters>...> converted{static_cast<Parameters>(arguments)...};
  const cudaError_t error = std::apply(
      [&](auto&... each) {
        void* addresses[] = {&each...};
        return cudaLaunchKernel(kernel, grid.blocks, grid.threads, addresses, grid.shared_bytes,
                                StreamOf(context).handle());
      },
      converted);
  return FromCuda(error, "cudaLaunchKernel");
}

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_LAUNCH_H_
