// Matrix products by cuBLASLt, each prepared for one shape: descriptors are made and the algorithm
// is chosen at load, so that a step chooses, allocates and looks up nothing, and the same algorithm
// gives the same bits in every step. f32 products are f32 throughout: no TF32, no tensor cores.
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_CUBLASLT_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_CUBLASLT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/kernels/kernel.h"
#include "framework/kernels/product_shape.h"

namespace sluice::cuda {

// What the library does to a product before it writes it: sums are f32 until then, and each result
// is rounded once. A bias is a vector of n elements, added to every row; `aux` lies as c does. Both
// are of c's type. gelu is the tanh form, of which the library does not say how exact it is.
enum class Epilogue {
  kNone,
  kBias,         // c = a b + bias
  kBiasGelu,     // c = gelu(a b + bias)
  kBiasGeluAux,  // the same, and aux = a b + bias
};

// c[i] = a[i] b[i] for `batch` matrices that lie row by row: a [m,k], or [k,m] if transposed, b
// [k,n] or [n,k], c [m,n]. Rows as they lie are row_a, row_b, row_c elements apart, matrices
// batch_a, batch_b, batch_c; 0 is the same matrix for all.
struct MatrixProduct {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  int64_t row_a = 0, row_b = 0, row_c = 0;
  int64_t batch_a = 0, batch_b = 0, batch_c = 0;
  DType operands = DType::kF32, result = DType::kF32;  // f32, or bf16 into either
  bool accumulate = false;                             // c = added + a b
  int64_t alignment = 64;                              // bytes, that all operands have
  Epilogue epilogue = Epilogue::kNone;
};
MatrixProduct DenseProduct(const ProductShape& shape);

// Beside a, b and c: of the epilogue, and what the product is added to.
struct ExtraOperands {
  const std::byte* bias = nullptr;
  std::byte* aux = nullptr;
  const std::byte* added = nullptr;  // lies as c does; null: it is what c holds
};

class CublasLtProduct {
 public:
  // Of the address of a workspace, in bytes.
  static constexpr int64_t kWorkspaceAlignment = 256;

  // For the device that is the calling thread's. Errors name the product and what the library
  // answers; Unimplemented: it has nothing that makes this product, perhaps because of its
  // epilogue. Products without elements need no library.
  static absl::StatusOr<std::shared_ptr<const CublasLtProduct>> Prepare(
      const MatrixProduct& product, int64_t most_workspace);
  virtual ~CublasLtProduct() = default;

  // Gives the product to the firing's stream. `workspace`: workspace() bytes. By one thread at a
  // time if it has an epilogue, whose operands the library takes from a descriptor.
  virtual absl::Status Run(const KernelContext& context, const std::byte* a, const std::byte* b,
                           std::byte* c, std::byte* workspace,
                           const ExtraOperands& extra = {}) const = 0;
  virtual int64_t workspace() const = 0;
  // What was chosen, for the record of a run: "algorithm 21, 4 splits added in f32".
  virtual std::string algorithm() const = 0;
};

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_CUBLASLT_H_
