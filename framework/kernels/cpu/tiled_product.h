// Matrix products of our own, where oneDNN has none that keeps what this project promises: below
// AVX-512 it has gemm:jit alone, whose bits depend on the number of rows and so on threads and on
// how a mesh cuts them, and which allocates megabytes at each call. For product.cc and
// convolution.cc.
#ifndef SLUICE_FRAMEWORK_KERNELS_CPU_TILED_PRODUCT_H_
#define SLUICE_FRAMEWORK_KERNELS_CPU_TILED_PRODUCT_H_

#include <cstdint>
#include <memory>

#include "framework/kernels/cpu/product.h"

namespace sluice::cpu {

// Whether products are ours: on this processor, or by what oneDNN was told of it
// (dnnl_set_max_cpu_isa, ONEDNN_MAX_CPU_ISA). The same for all shapes of a process.
bool ProductsAreTiled();

// So many elements of the depth are summed in one chain of fused multiply-adds, in order, and these
// sums are added in order: an element's bits depend on its own row and column, and on nothing else.
// It is what keeps a sum of 50,000 elements true as well: one chain over them would lose three
// more bits than parts do.
constexpr int64_t kTiledDepth = 256;

std::shared_ptr<const Product> MakeTiledProduct(const ProductShape& shape, int threads);

}  // namespace sluice::cpu

#endif  // SLUICE_FRAMEWORK_KERNELS_CPU_TILED_PRODUCT_H_
