// Stands for the toolkit's header of this name on machines without GPU: cuda_runtime_api.h tells
// more. Kernels are launched by cudaLaunchKernel; there is no <<<>>>.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_INCLUDE_CUDA_RUNTIME_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_INCLUDE_CUDA_RUNTIME_H_

#include <cstddef>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "cuda_kernel.h"
#include "cuda_runtime_api.h"
#include "vector_types.h"

namespace sluice::cuda_emulation {

// `thread` runs the kernel once, for the thread that kernel_indices name.
cudaError_t LaunchKernel(const void* kernel, dim3 blocks, dim3 threads, size_t shared_bytes,
                         size_t argument_bytes, cudaStream_t stream, std::function<void()> thread);
// From here to the kernel's end, every access is the kernel's.
void EnterKernel();

template <typename... P, size_t... kIndex>
std::tuple<std::remove_cv_t<P>...> CopyArguments(void** arguments, std::index_sequence<kIndex...>) {
  return {*static_cast<std::remove_cv_t<P>*>(arguments[kIndex])...};
}

}  // namespace sluice::cuda_emulation

template <typename... P>
cudaError_t cudaLaunchKernel(void (*kernel)(P...), dim3 gridDim_, dim3 blockDim_, void** args,
                             size_t sharedMem = 0, cudaStream_t stream = nullptr) {
  namespace emulation = ::sluice::cuda_emulation;
  static_assert((std::is_trivially_copyable_v<P> && ...), "arguments travel as bytes");
  static_assert((!std::is_reference_v<P> && ...), "a reference would be one to host memory");
  using Arguments = std::tuple<std::remove_cv_t<P>...>;
  const auto copied = emulation::CopyArguments<P...>(args, std::index_sequence_for<P...>());
  return emulation::LaunchKernel(
      reinterpret_cast<const void*>(kernel), gridDim_, blockDim_, sharedMem,
      (sizeof(P) + ... + size_t{0}), stream, [kernel, copied] {
        // On the thread's own stack, where a kernel may read them.
        const Arguments arguments = copied;
        const auto its = kernel;
        emulation::EnterKernel();
        std::apply([its](const auto&... each) { its(each...); }, arguments);
      });
}

// As the toolkit's: of pointers of any type.
template <typename T>
cudaError_t cudaMalloc(T** devPtr, size_t size) {
  return cudaMalloc(reinterpret_cast<void**>(devPtr), size);
}
template <typename T>
cudaError_t cudaMallocHost(T** ptr, size_t size) {
  return cudaMallocHost(reinterpret_cast<void**>(ptr), size);
}
template <typename T>
cudaError_t cudaHostAlloc(T** ptr, size_t size, unsigned int flags) {
  return cudaHostAlloc(reinterpret_cast<void**>(ptr), size, flags);
}
template <typename... P>
cudaError_t cudaFuncSetAttribute(void (*kernel)(P...), cudaFuncAttribute attr, int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attr, value);
}
template <typename... P>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attr, void (*kernel)(P...)) {
  return cudaFuncGetAttributes(attr, reinterpret_cast<const void*>(kernel));
}
template <typename... P>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* numBlocks, void (*kernel)(P...),
                                                          int blockSize, size_t dynamicSMemSize) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      numBlocks, reinterpret_cast<const void*>(kernel), blockSize, dynamicSMemSize);
}

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_INCLUDE_CUDA_RUNTIME_H_
