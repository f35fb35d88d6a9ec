// A product that sums over very many elements, done in parts of its depth. For product.cc.
#ifndef SLUICE_FRAMEWORK_KERNELS_CPU_DEEP_PRODUCT_H_
#define SLUICE_FRAMEWORK_KERNELS_CPU_DEEP_PRODUCT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "framework/kernels/cpu/product.h"

namespace sluice::cpu {

// Whether a product is done in parts: by its depth and by how its operands lie alone, since the
// order of its sums depends on it, and layouts of a mesh that cut rows or columns must agree.
bool IsDeep(const ProductShape& shape);

// REQUIRES: IsDeep(shape).
absl::StatusOr<std::shared_ptr<const Product>> PrepareDeepProduct(const ProductShape& shape,
                                                                  int threads);

}  // namespace sluice::cpu

#endif  // SLUICE_FRAMEWORK_KERNELS_CPU_DEEP_PRODUCT_H_
