// Matrix products: through oneDNN, primitives made at prepare for fixed shapes, with one thread
// each, and our own threads take rows or matrices of the batch; or our own (tiled_product.h).
#ifndef SLUICE_FRAMEWORK_KERNELS_CPU_PRODUCT_H_
#define SLUICE_FRAMEWORK_KERNELS_CPU_PRODUCT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/product_shape.h"

namespace sluice::cpu {

class Product {
 public:
  // Unimplemented if oneDNN offers nothing but its reference implementation.
  static absl::StatusOr<std::shared_ptr<const Product>> Prepare(const ProductShape& shape,
                                                                int threads);
  virtual ~Product() = default;
  virtual void Run(const KernelContext& context, const std::byte* a, const std::byte* b,
                   std::byte* c, std::byte* scratch) const = 0;
  virtual int64_t scratch() const = 0;
  // What oneDNN calls the implementations it chose: "brg:avx512_core"; "tiled:avx2" where it is not
  // used (tiled_product.h), and nothing for plain loops.
  virtual std::string implementation() const = 0;
};

}  // namespace sluice::cpu

#endif  // SLUICE_FRAMEWORK_KERNELS_CPU_PRODUCT_H_
