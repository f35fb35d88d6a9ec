#include "framework/testing/cuda_emulation/cublaslt_product.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "framework/tensor/dtype.h"

namespace sluice::cuda_emulation {
namespace {

// A tile of a product: eight rows by four columns, which fit into registers.
constexpr int64_t kRows = 8, kColumns = 4;
using Eight = float __attribute__((vector_size(kRows * sizeof(float))));
// Depths that are summed at a time: what they need of A then stays in the second cache. A sum goes
// on from where it was, so no bit depends on it.
constexpr int64_t kDepths = 256;

int64_t Tiles(int64_t n, int64_t each) { return (n + each - 1) / each; }

float Load(const void* base, uint32_t type, int64_t i) {
  if (type == CUDA_R_16BF) return BFloat16ToFloat(static_cast<const uint16_t*>(base)[i]);
  return static_cast<const float*>(base)[i];
}
void Store(void* base, uint32_t type, int64_t i, float value) {
  if (type == CUDA_R_16BF) {
    static_cast<uint16_t*>(base)[i] = FloatToBFloat16(value);
  } else {
    static_cast<float*>(base)[i] = value;
  }
}
// As an element of the type holds it.
float RoundTo(uint32_t type, float value) {
  return type == CUDA_R_16BF ? BFloat16ToFloat(FloatToBFloat16(value)) : value;
}
// To ten bits of mantissa, ties away from zero.
float RoundToTf32(float value) {
  if (!std::isfinite(value)) return value;
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits = (bits + 0x1000) & ~uint32_t{0x1fff};
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

// A matrix of `lines` by `depth`, f32, in panels of `together` lines, depth by depth; filled with
// zeros to whole panels. Element (line, depth) lies line * line_step + depth * depth_step elements
// from `base`.
struct Source {
  const void* base;
  uint32_t type;
  int64_t line_step, depth_step;
  bool to_tf32;
};
void Pack(const Source& from, int64_t lines, int64_t depth, int64_t together,
          std::vector<float>* to) {
  to->assign(Tiles(lines, together) * together * depth, 0.0f);
  for (int64_t line = 0; line < lines; ++line) {
    float* out = to->data() + line / together * together * depth + line % together;
    for (int64_t k = 0; k < depth; ++k, out += together) {
      const float value = Load(from.base, from.type, line * from.line_step + k * from.depth_step);
      *out = from.to_tf32 ? RoundToTf32(value) : value;
    }
  }
}

// sums += a b for a tile.
void AddTile(const float* a, const float* b, int64_t depth, float* sums) {
  Eight total[kColumns];
  std::memcpy(total, sums, sizeof total);
  for (int64_t k = 0; k < depth; ++k, a += kRows, b += kColumns) {
    Eight rows;
    std::memcpy(&rows, a, sizeof rows);
    for (int64_t column = 0; column < kColumns; ++column) total[column] += rows * b[column];
  }
  std::memcpy(sums, total, sizeof total);
}

// The sums over [begin, end) of the depth, tile by tile.
class Sums {
 public:
  Sums(const MatmulProblem& problem) : rows_(problem.rows()), columns_(problem.columns()) {
    sums_.resize(Tiles(rows_, kRows) * Tiles(columns_, kColumns) * kRows * kColumns);
  }

  void Compute(const std::vector<float>& a, const std::vector<float>& b, int64_t depth,
               int64_t begin, int64_t end) {
    std::fill(sums_.begin(), sums_.end(), 0.0f);
    const int64_t row_tiles = Tiles(rows_, kRows), column_tiles = Tiles(columns_, kColumns);
    for (int64_t k = begin; k < end; k += kDepths) {
      const int64_t some = std::min(kDepths, end - k);
      for (int64_t j = 0; j < column_tiles; ++j) {
        for (int64_t i = 0; i < row_tiles; ++i) {
          AddTile(a.data() + (i * depth + k) * kRows, b.data() + (j * depth + k) * kColumns, some,
                  sums_.data() + (j * row_tiles + i) * kRows * kColumns);
        }
      }
    }
  }

  float at(int64_t row, int64_t column) const {
    const int64_t tile = column / kColumns * Tiles(rows_, kRows) + row / kRows;
    return sums_[(tile * kColumns + column % kColumns) * kRows + row % kRows];
  }

 private:
  int64_t rows_, columns_;
  std::vector<float> sums_;
};

float Gelu(float x) {
  return 0.5f * x * (1 + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
}
float GeluGradient(float x) {
  const float inner = 0.7978845608f * (x + 0.044715f * x * x * x), t = std::tanh(inner);
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.7978845608f * (1 + 3 * 0.044715f * x * x);
}

// One matrix of the batch.
class OneProduct {
 public:
  OneProduct(const MatmulProblem& problem, const MatmulAlgorithm& algorithm,
             const MatmulOperands& operands, int64_t index)
      : p_(problem),
        algorithm_(algorithm),
        epilogue_(*FindEpilogue(problem.matmul.epilogue)),
        a_(At(operands.a, p_.a, index)),
        b_(At(operands.b, p_.b, index)),
        c_(At(operands.c, p_.c, index)),
        d_(const_cast<char*>(At(operands.d, p_.d, index))),
        alpha_(operands.alpha),
        beta_(operands.beta),
        index_(index) {
    if (operands.workspace != nullptr && algorithm.splits > 1) {
      const int64_t elements = p_.rows() * p_.columns() * algorithm.splits;
      parts_ = static_cast<char*>(operands.workspace) + index * elements * BytesOfType(PartType());
    }
  }

  void Run() {
    SumUp();
    Finish();
    if (epilogue_.bias == BiasUse::kSumOfA || epilogue_.bias == BiasUse::kSumOfB) SumOperand();
  }

 private:
  static const char* At(const void* base, const cublasLtMatrixLayoutOpaque_t& x, int64_t index) {
    return static_cast<const char*>(base) + index * x.batch_stride * BytesOfType(x.type);
  }
  uint32_t PartType() const {
    const bool wide = algorithm_.scheme == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    return wide ? uint32_t{CUDA_R_32F} : p_.d.type;
  }

  // sum_[row, column] of op(A) op(B), from one part or from several added in order.
  void SumUp() {
    const int64_t rows = p_.rows(), columns = p_.columns(), depth = p_.depth();
    const bool to_tf32 =
        (algorithm_.implementation & CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_TF32) != 0;
    const bool turned_a = p_.matmul.transpose_a != CUBLAS_OP_N;
    const bool turned_b = p_.matmul.transpose_b != CUBLAS_OP_N;
    std::vector<float> a, b;
    Pack({a_, p_.a.type, turned_a ? p_.a.ld : 1, turned_a ? 1 : p_.a.ld, to_tf32}, rows, depth,
         kRows, &a);
    Pack({b_, p_.b.type, turned_b ? 1 : p_.b.ld, turned_b ? p_.b.ld : 1, to_tf32}, columns, depth,
         kColumns, &b);
    Sums sums(p_);
    sum_.assign(rows * columns, 0.0f);
    for (int64_t part = 0; part < algorithm_.splits; ++part) {
      sums.Compute(a, b, depth, depth * part / algorithm_.splits,
                   depth * (part + 1) / algorithm_.splits);
      for (int64_t column = 0; column < columns; ++column) {
        for (int64_t row = 0; row < rows; ++row) {
          AddPart(part, column * rows + row, sums.at(row, column));
        }
      }
    }
  }

  void AddPart(int64_t part, int64_t i, float value) {
    if (algorithm_.splits == 1) {
      sum_[i] = value;
    } else if (algorithm_.scheme == CUBLASLT_REDUCTION_SCHEME_INPLACE) {
      sum_[i] = RoundTo(p_.d.type, sum_[i] + value);
    } else {
      const int64_t at = part * p_.rows() * p_.columns() + i;
      Store(parts_, PartType(), at, value);
      sum_[i] += Load(parts_, PartType(), at);
    }
  }

  void Finish() {
    const int64_t rows = p_.rows();
    std::vector<float> bias_sum(rows, 0.0f);
    for (int64_t column = 0; column < p_.columns(); ++column) {
      for (int64_t row = 0; row < rows; ++row) {
        float value = alpha_ * sum_[column * rows + row];
        if (beta_ != 0) value += beta_ * Load(c_, p_.c.type, column * p_.c.ld + row);
        if (epilogue_.bias == BiasUse::kAdded) {
          value += Load(p_.matmul.bias, p_.bias_type(), index_ * p_.matmul.bias_batch_stride + row);
        }
        value = Activate(value, row, column);
        bias_sum[row] += value;
        Store(d_, p_.d.type, column * p_.d.ld + row, value);
      }
    }
    if (epilogue_.bias != BiasUse::kSumOfD) return;
    for (int64_t row = 0; row < rows; ++row) {
      Store(p_.matmul.bias, p_.bias_type(), index_ * p_.matmul.bias_batch_stride + row,
            bias_sum[row]);
    }
  }

  float Activate(float value, int64_t row, int64_t column) {
    const int64_t at = index_ * p_.matmul.aux_batch_stride + column * p_.matmul.aux_ld + row;
    if (epilogue_.activation == Activation::kRelu) {
      bool passes = value > 0;
      if (epilogue_.aux == AuxUse::kRead) passes = Bit(at);
      if (epilogue_.aux == AuxUse::kWritten) SetBit(at, passes);
      return passes ? value : 0;
    }
    if (epilogue_.activation == Activation::kGelu) {
      if (epilogue_.aux == AuxUse::kRead) {
        return value * GeluGradient(Load(p_.matmul.aux, p_.aux_type(), at));
      }
      if (epilogue_.aux == AuxUse::kWritten) Store(p_.matmul.aux, p_.aux_type(), at, value);
      return Gelu(value);
    }
    return value;
  }

  bool Bit(int64_t at) const {
    return (static_cast<const uint8_t*>(p_.matmul.aux)[at / 8] >> at % 8 & 1) != 0;
  }
  void SetBit(int64_t at, bool value) {
    uint8_t& byte = static_cast<uint8_t*>(p_.matmul.aux)[at / 8];
    byte = static_cast<uint8_t>((byte & ~(1 << at % 8)) | value << at % 8);
  }

  // The gradient of a bias from an operand: for each row of op(A), or column of op(B), the sum over
  // the depth.
  void SumOperand() {
    const bool of_a = epilogue_.bias == BiasUse::kSumOfA;
    const cublasLtMatrixLayoutOpaque_t& x = of_a ? p_.a : p_.b;
    const bool turned = (of_a ? p_.matmul.transpose_a : p_.matmul.transpose_b) != CUBLAS_OP_N;
    const bool line_is_column = of_a == turned;
    const void* const base = of_a ? a_ : b_;
    for (int64_t line = 0; line < BiasLength(p_, epilogue_); ++line) {
      float sum = 0;
      for (int64_t k = 0; k < p_.depth(); ++k) {
        sum += Load(base, x.type, line_is_column ? line * x.ld + k : k * x.ld + line);
      }
      Store(p_.matmul.bias, p_.bias_type(), index_ * p_.matmul.bias_batch_stride + line, sum);
    }
  }

  const MatmulProblem& p_;
  const MatmulAlgorithm& algorithm_;
  const Epilogue& epilogue_;
  const char *a_, *b_, *c_;
  char* d_;
  const float alpha_, beta_;
  const int64_t index_;
  char* parts_ = nullptr;
  std::vector<float> sum_;  // column by column
};

}  // namespace

void ComputeMatmul(const MatmulProblem& problem, const MatmulAlgorithm& algorithm,
                   const MatmulOperands& operands) {
  for (int64_t i = 0; i < problem.d.batch_count; ++i) {
    OneProduct(problem, algorithm, operands, i).Run();
  }
}

}  // namespace sluice::cuda_emulation
