// One matrix product of fixed shape as a primitive of oneDNN, and the layout in which its second
// matrix is multiplied fastest. For product.cc, which splits products into these.
#ifndef SLUICE_FRAMEWORK_KERNELS_CPU_MULTIPLICATION_H_
#define SLUICE_FRAMEWORK_KERNELS_CPU_MULTIPLICATION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "framework/tensor/dtype.h"

namespace sluice::cpu {

// A [k, n] matrix in panels of `width` columns, one behind the other: what a product reads of it
// lies in one run, whatever n is. Inside of a panel the elements of `together` rows stand side by
// side (two of bf16, as processors multiply pairs), and so row group by row group. Rows are filled
// with zeros to a multiple of `depth`, columns to one of the width. width 0: the matrix as it lies.
struct Panels {
  int64_t width = 0, depth = 1, together = 1;
  friend bool operator==(const Panels&, const Panels&) = default;

  // REQUIRES of all below: width > 0.
  int64_t PanelElements(int64_t k) const { return (k + depth - 1) / depth * depth * width; }
  int64_t NumPanels(int64_t n) const { return (n + width - 1) / width; }
  // Panels [begin, end) of b, [k, n] row by row, to their places in `packed`; elements of 4 bytes
  // where together is 1, of 2 bytes where it is 2.
  void Pack(const std::byte* b, int64_t k, int64_t n, int64_t begin, int64_t end,
            std::byte* packed) const;
};

// c = a b; c [m,n] dense, a [m,k] or, transposed, [k,m], b [k,n] or [n,k], or in panels.
class Multiplication {
 public:
  struct Shape {
    int64_t m = 0, n = 0, k = 0;
    bool transpose_a = false, transpose_b = false;
    DType operands = DType::kF32;  // of a and b: f32 or bf16
    DType result = DType::kF32;    // of c: the same, or f32; sums are f32 in either
  };
  // Unimplemented if oneDNN offers nothing but its reference implementation, as in bf16 on a
  // processor without AVX-512.
  static absl::StatusOr<Multiplication> Prepare(const Shape& shape);
  // The same on b in the panels that oneDNN likes best; where it names none that Panels can say, b
  // is multiplied as it lies.
  static absl::StatusOr<Multiplication> PrepareInPanels(const Shape& shape);

  Multiplication(Multiplication&&) noexcept;
  Multiplication& operator=(Multiplication&&) noexcept;
  ~Multiplication();

  // `scratch` is of scratch_bytes(). One thread at a time.
  void Run(const std::byte* a, const std::byte* b, std::byte* c, std::byte* scratch) const;
  int64_t scratch_bytes() const { return scratch_bytes_; }
  const Panels& panels() const { return panels_; }
  // oneDNN's name for what it chose: "brg:avx512_core".
  const std::string& implementation() const { return implementation_; }

 private:
  struct Call;
  Multiplication();
  static absl::StatusOr<Multiplication> Make(const Shape& shape, bool in_panels);

  std::unique_ptr<Call> call_;
  Panels panels_;
  int64_t scratch_bytes_ = 0;
  std::string implementation_;
};

}  // namespace sluice::cpu

#endif  // SLUICE_FRAMEWORK_KERNELS_CPU_MULTIPLICATION_H_
