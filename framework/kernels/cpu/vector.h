// The loops over f32 arrays that kernels are made of, compiled once for each instruction-set level
// (v3: AVX2, v4: AVX-512) and chosen once by what the processor has. Every level gives the same
// bits, and no result depends on how a caller cuts an array (columns: at multiples of 16).
// Pure functions over memory that the caller owns; any thread. Included by *_vector.cc too: no
// header here may hold inline functions.
#ifndef SLUICE_FRAMEWORK_KERNELS_CPU_VECTOR_H_
#define SLUICE_FRAMEWORK_KERNELS_CPU_VECTOR_H_

#include <stdint.h>

namespace sluice::cpu {

using UnaryLoop = void (*)(const float* x, float* y, int64_t n);
using BinaryLoop = void (*)(const float* a, const float* b, float* y, int64_t n);

struct ArithmeticVector {
  // Both arrays; a one element for all; b one element for all.
  struct Binary {
    BinaryLoop both, scalar_a, scalar_b;
  };
  Binary add, subtract, multiply, divide;
  BinaryLoop maximum, minimum;  // NaN wins
  // Store past the caches where y is aligned to 64; _mm_sfence is the caller's.
  BinaryLoop add_streaming;
  UnaryLoop copy_streaming;
  UnaryLoop copy;  // of arrays apart
  // to[c * to_row + r] = from[r * from_row + c], bits of any 4-byte type.
  void (*transpose)(const float* from, int64_t from_row, int64_t rows, int64_t columns, float* to,
                    int64_t to_row);
  void (*scale)(const float* x, float factor, float* y, int64_t n);
  void (*fill)(float value, float* y, int64_t n);
  UnaryLoop sqrt;
  void (*to_bf16)(const float* x, uint16_t* y, int64_t n);
  void (*from_bf16)(const uint16_t* x, float* y, int64_t n);
};

// One draw of a random op: what Philox (tensor/random.h) is keyed and counted by.
struct Draw {
  uint32_t key0, key1;
  int64_t step;
};

struct ActivationVector {
  UnaryLoop gelu, silu, sigmoid, relu;
  BinaryLoop gelu_gradient, silu_gradient;  // x, dy -> dx
  BinaryLoop sigmoid_gradient;              // y, dy -> dx
  BinaryLoop relu_gradient;                 // x, dy -> dx
  void (*softmax)(const float* x, float* y, int64_t rows, int64_t width);
  void (*softmax_gradient)(const float* y, const float* dy, float* dx, int64_t rows, int64_t width);
  // y[i] = word(first + i) >= threshold ? x[i] * scale : 0, where word is RandomWord.
  void (*dropout)(const Draw& draw, uint32_t threshold, float scale, int64_t first, const float* x,
                  float* y, int64_t n);
};

struct NormalizationVector {
  void (*layer_norm)(const float* x, const float* gamma, const float* beta, float epsilon, float* y,
                     float* mean, float* rstd, int64_t rows, int64_t width);
  void (*gradient)(const float* dy, const float* x, const float* gamma, const float* mean,
                   const float* rstd, float* dx, int64_t rows, int64_t width);
  // Columns [begin, end) of dgamma and dbeta.
  void (*parameter_gradient)(const float* dy, const float* x, const float* mean, const float* rstd,
                             float* dgamma, float* dbeta, int64_t rows, int64_t width,
                             int64_t begin, int64_t end);
};

struct ReductionVector {
  // Index by Reduction - 1: sum, max, min.
  float (*row[3])(const float* x, int64_t n);
  // y[c] over rows of x, `stride` apart, of `columns` elements.
  void (*columns[3])(const float* x, int64_t rows, int64_t stride, float* y, int64_t columns);
  double (*sum)(const float* x, int64_t n);
  double (*sum_squares)(const float* x, int64_t n);
};

struct CrossEntropyVector {
  void (*sum_exp)(const float* logits, const float* max, float* sum, int64_t rows, int64_t width);
  void (*combine)(const float* max, const float* sum, const float* picked, float* loss, int64_t n);
  // -dpicked * softmax; the caller adds dpicked where the label is.
  void (*gradient)(const float* logits, const float* max, const float* sum, const float* dpicked,
                   float* dlogits, int64_t rows, int64_t width);
};

struct SgdStep {
  float factor, learning_rate, momentum, weight_decay;
};
struct AdamWStep {
  // variable = decay * variable - rate * m / (sqrt(v) * root + epsilon)
  float factor, beta1, one_minus_beta1, beta2, one_minus_beta2, decay, rate, root, epsilon;
};
struct OptimizerVector {
  void (*sgd)(const SgdStep& step, const float* gradient, float* variable, int64_t n);
  void (*sgd_momentum)(const SgdStep& step, const float* gradient, float* variable, float* momentum,
                       int64_t n);
  void (*adamw)(const AdamWStep& step, const float* gradient, float* variable, float* m, float* v,
                int64_t n);
};

// One head of attention: `time` rows of `size` elements, `row` apart; its log-sum-exps are
// `statistic` apart.
struct AttentionHead {
  int64_t time, size, row, statistic;
  float scale;
};
// Query rows whose scores are kept at a time.
constexpr int64_t kAttentionRows = 32;
struct AttentionVector {
  // Scratch: size + kAttentionRows rows of the time, rounded up to 16.
  void (*forward)(const AttentionHead& head, const float* q, const float* k, const float* v,
                  float* y, float* logsumexp, float* scratch);
  // Scratch: twice that.
  void (*backward)(const AttentionHead& head, const float* q, const float* k, const float* v,
                   const float* y, const float* logsumexp, const float* dy, float* dq, float* dk,
                   float* dv, float* scratch);
};

struct VectorTable {
  ArithmeticVector arithmetic;
  ActivationVector activation;
  NormalizationVector normalization;
  ReductionVector reduction;
  CrossEntropyVector cross_entropy;
  OptimizerVector optimizer;
  AttentionVector attention;
};

namespace v3 {
extern const ArithmeticVector kArithmetic;
extern const ActivationVector kActivation;
extern const NormalizationVector kNormalization;
extern const ReductionVector kReduction;
extern const CrossEntropyVector kCrossEntropy;
extern const OptimizerVector kOptimizer;
extern const AttentionVector kAttention;
}  // namespace v3
namespace v4 {
extern const ArithmeticVector kArithmetic;
extern const ActivationVector kActivation;
extern const NormalizationVector kNormalization;
extern const ReductionVector kReduction;
extern const CrossEntropyVector kCrossEntropy;
extern const OptimizerVector kOptimizer;
extern const AttentionVector kAttention;
}  // namespace v4

enum class Isa { kV3, kV4 };
// Whether the processor runs code of the level. Without v3 there is no CPU device.
bool Runs(Isa isa);
const VectorTable& VectorsOf(Isa isa);
// The highest level that the processor runs, unless a test has asked for another.
const VectorTable& Vectors();
// For tests, which compare levels: kernels that are prepared and launched while it lives are of
// this level. One at a time. REQUIRES: Runs(isa).
class ScopedIsa {
 public:
  explicit ScopedIsa(Isa isa);
  ~ScopedIsa();
  ScopedIsa(const ScopedIsa&) = delete;
  ScopedIsa& operator=(const ScopedIsa&) = delete;
};

}  // namespace sluice::cpu

#endif  // SLUICE_FRAMEWORK_KERNELS_CPU_VECTOR_H_
