// The loops over arrays of f32 and bf16 that kernels are made of, compiled once for each
// instruction-set level (v3: AVX2, v4: AVX-512, v4_bf16: with products of bf16) and chosen once by
// what the processor has. Every level gives the same bits, and no result depends on how a caller
// cuts an array (columns: at multiples of 16). Pure functions over memory that the caller owns; any
// thread. Included by
// *_vector.cc too: no header here may hold inline functions.
#ifndef SLUICE_FRAMEWORK_KERNELS_CPU_VECTOR_H_
#define SLUICE_FRAMEWORK_KERNELS_CPU_VECTOR_H_

#include <stdint.h>

#include "framework/kernels/update_steps.h"

namespace sluice::cpu {

// The bits of a bf16. Loops over it compute in f32 and round each result once.
using BFloat16 = uint16_t;

template <typename T>
using UnaryLoop = void (*)(const T* x, T* y, int64_t n);
template <typename T>
using BinaryLoop = void (*)(const T* a, const T* b, T* y, int64_t n);

template <typename T>
struct ElementwiseVector {
  // Both arrays; a one element for all; b one element for all.
  struct Binary {
    BinaryLoop<T> both, scalar_a, scalar_b;
  };
  Binary add, subtract, multiply, divide;
  BinaryLoop<T> maximum, minimum;  // NaN wins
  void (*scale)(const T* x, float factor, T* y, int64_t n);
  // sum[i] += x[i]
  void (*add_to_f32)(const T* x, float* sum, int64_t n);
};

struct ArithmeticVector {
  // Store past the caches where y is aligned to 64; _mm_sfence is the caller's.
  BinaryLoop<float> add_streaming;
  UnaryLoop<float> copy_streaming;
  UnaryLoop<float> copy;  // of arrays apart
  // to[c * to_row + r] = from[r * from_row + c], bits of any 4-byte type.
  void (*transpose)(const float* from, int64_t from_row, int64_t rows, int64_t columns, float* to,
                    int64_t to_row);
  // The same of any 2-byte type.
  void (*transpose_halves)(const uint16_t* from, int64_t from_row, int64_t rows, int64_t columns,
                           uint16_t* to, int64_t to_row);
  // y[2i], y[2i + 1] = a[i], b[i]; zero for b where there is none (null).
  void (*pair_up)(const BFloat16* a, const BFloat16* b, BFloat16* y, int64_t n);
  void (*fill)(float value, float* y, int64_t n);
  UnaryLoop<float> sqrt;
  void (*to_bf16)(const float* x, BFloat16* y, int64_t n);
  void (*from_bf16)(const BFloat16* x, float* y, int64_t n);
  // Whether each of them is in [0, limit); the limit is at most 2^31.
  bool (*all_below)(const int32_t* x, uint32_t limit, int64_t n);
};

// One draw of a random op: what Philox (tensor/random.h) is keyed and counted by.
struct Draw {
  uint32_t key0, key1;
  int64_t step;
};

template <typename T>
struct ActivationVector {
  UnaryLoop<T> gelu, gelu_erf, silu, sigmoid, tanh, relu;
  BinaryLoop<T> gelu_gradient, gelu_erf_gradient, silu_gradient;  // x, dy -> dx
  BinaryLoop<T> sigmoid_gradient, tanh_gradient, relu_gradient;   // y, dy -> dx
  void (*softmax)(const T* x, T* y, int64_t rows, int64_t width);
  void (*softmax_gradient)(const T* y, const T* dy, T* dx, int64_t rows, int64_t width);
  // y[i] = word(first + i) >= threshold ? x[i] * scale : 0, where word is RandomWord.
  void (*dropout)(const Draw& draw, uint32_t threshold, float scale, int64_t first, const T* x,
                  T* y, int64_t n);
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

// What normalizes one group, by channels: y = (x - mean) * factor + beta.
struct ChannelNorm {
  const float *mean, *factor, *beta;
};
template <typename T>
using NormalizeLoop = void (*)(const T* x, const ChannelNorm& norm, const T* addend, T* y,
                               int64_t rows, int64_t width);
// The gradient of a relu's output y, of which dz, that of its input, is stored in passing. The
// gradient is dy, or dy + other_dy where that is not null.
template <typename T>
struct ReluGradients {
  const T *y, *dy, *other_dy;
  T* dz;
};
// Of rows of channels; what is one a channel stands in rows of that length. Loops that do what
// several ops do round as often as these, and give their bits.
template <typename T>
struct BatchNormVector {
  // sum[c] = sum over the rows of (x - mean)^2
  void (*squares)(const T* x, const float* mean, float* sum, int64_t rows, int64_t width);
  // y, plus the addend where there is one, through relu where that is said.
  NormalizeLoop<T> normalize, normalize_relu, normalize_add, normalize_add_relu;
  // dgamma[c], dbeta[c] = sums over the rows of dy * (x - mean), of dy
  void (*sums)(const T* dy, const T* x, const float* mean, float* dgamma, float* dbeta,
               int64_t rows, int64_t width);
  // The same of the gradient of relu(y), where y is what the norm makes of x.
  void (*relu_sums)(const T* dy, const T* x, const ChannelNorm& norm, float* dgamma, float* dbeta,
                    int64_t rows, int64_t width);
  // The same of dz.
  void (*add_relu_sums)(const ReluGradients<T>& relu, const T* x, const float* mean, float* dgamma,
                        float* dbeta, int64_t rows, int64_t width);
  // dx = factor * (dy - shift - (x - mean) * slope)
  void (*gradient)(const T* dy, const T* x, const ChannelNorm& norm, const float* shift,
                   const float* slope, T* dx, int64_t rows, int64_t width);
  // The same of the gradient of relu(y).
  void (*relu_gradient)(const T* dy, const T* x, const ChannelNorm& norm, const float* shift,
                        const float* slope, T* dx, int64_t rows, int64_t width);
};
struct BatchStatisticsVector {
  // rstd = 1 / sqrt(variance + epsilon)
  void (*rstd)(const float* variance, float epsilon, float* rstd, int64_t n);
  // average = kept * average + momentum * value
  void (*moving_average)(float kept, float momentum, const float* value, float* average, int64_t n);
};

// Of rows of channels, too.
template <typename T>
struct ChannelVector {
  void (*prelu)(const T* x, const float* slope, T* y, int64_t rows, int64_t width);
  void (*prelu_gradient)(const T* x, const float* slope, const T* dy, T* dx, int64_t rows,
                         int64_t width);
  void (*prelu_slope_gradient)(const T* x, const T* dy, float* dslope, int64_t rows, int64_t width);
  void (*l2_normalize)(const T* x, float epsilon, T* y, float* length, int64_t rows, int64_t width);
  void (*l2_normalize_gradient)(const T* x, const float* length, float epsilon, const T* dy, T* dx,
                                int64_t rows, int64_t width);
};

// Pixels with their channels beside each other.
struct ImageVector {
  // y[i] = (x[i] - mean[(first + i) % period]) * factor[..]; period and first are multiples of 16,
  // first is below the period.
  void (*normalize)(const uint8_t* x, const float* mean, const float* factor, int64_t period,
                    int64_t first, float* y, int64_t n);
};

template <typename T>
struct ReductionVector {
  // Index by Reduction - 1: sum, max, min.
  float (*row[3])(const T* x, int64_t n);
  // y[c] over rows of x, `stride` apart, of `columns` elements.
  void (*columns[3])(const T* x, int64_t rows, int64_t stride, float* y, int64_t columns);
  double (*sum)(const T* x, int64_t n);
  double (*sum_squares)(const T* x, int64_t n);
};

template <typename T>
struct CrossEntropyVector {
  void (*sum_exp)(const T* logits, const float* max, float* sum, int64_t rows, int64_t width);
  void (*combine)(const float* max, const float* sum, const float* picked, float* loss, int64_t n);
  // dpicked * (share - softmax); the caller adds what is of the label alone.
  void (*gradient)(const T* logits, const float* max, const float* sum, const float* dpicked,
                   float share, T* dlogits, int64_t rows, int64_t width);
  // How many of n logits are not below `than`, or not at most that: NaN is neither.
  float (*not_below)(const T* logits, float than, int64_t n);
  float (*not_at_most)(const T* logits, float than, int64_t n);
};
struct SigmoidCrossEntropyVector {
  void (*loss)(const float* logits, const float* labels, float* loss, int64_t n);
  // dlogits = (sigmoid(logit) - label) * dloss
  void (*gradient)(const float* logits, const float* labels, const float* dloss, float* dlogits,
                   int64_t n);
};

// How a pool's window moves along one dimension of an image. Each place has a pixel.
struct PoolAxis {
  int64_t pixels, places, window, stride, before;
};
// Images [height, width, channels]: so many channels of each pixel, pixels `stride` apart; of the
// result likewise.
struct PoolImage {
  PoolAxis height, width;
  int64_t channels, stride;
  bool count_padding;
};
// At most as many channels at a time in max_gradient.
constexpr int64_t kPoolChannels = 64;
template <typename T>
struct PoolVector {
  void (*max)(const PoolImage& image, const T* x, T* y);
  // Scratch: as many rows of places as cover a pixel, of kPoolChannels a place.
  void (*max_gradient)(const PoolImage& image, const T* x, const T* dy, T* dx, int32_t* scratch);
  void (*average)(const PoolImage& image, const T* x, T* y);
  void (*average_gradient)(const PoolImage& image, const T* dy, T* dx);
};

struct OptimizerVector {
  void (*sgd)(const SgdStep& step, const float* gradient, float* variable, int64_t n);
  void (*sgd_momentum)(const SgdStep& step, const float* gradient, float* variable, float* momentum,
                       int64_t n);
  void (*adamw)(const AdamWStep& step, const float* gradient, float* variable, float* m, float* v,
                int64_t n);
  // direction = rate * m / (sqrt(v) * root + epsilon) + decay * variable
  void (*adam_direction)(const AdamWStep& step, const float* gradient, const float* variable,
                         float* m, float* v, float* direction, int64_t n);
  void (*adagrad)(const AdagradStep& step, const float* gradient, float* variable, float* sum,
                  int64_t n);
  // REQUIRES: a rate that is not 0.
  void (*ftrl)(const FtrlStep& step, const float* gradient, float* variable, float* z, float* n,
               int64_t count);
};
// The same of elements that stand at ids, each named once, of a variable and of its states;
// gradient[i] is that of ids[i].
struct OptimizerAtIdsVector {
  void (*sgd)(const SgdStep& step, const float* gradient, const int32_t* ids, float* variable,
              int64_t n);
  void (*sgd_momentum)(const SgdStep& step, const float* gradient, const int32_t* ids,
                       float* variable, float* momentum, int64_t n);
  void (*adamw)(const AdamWStep& step, const float* gradient, const int32_t* ids, float* variable,
                float* m, float* v, int64_t n);
  void (*adagrad)(const AdagradStep& step, const float* gradient, const int32_t* ids,
                  float* variable, float* sum, int64_t n);
  void (*ftrl)(const FtrlStep& step, const float* gradient, const int32_t* ids, float* variable,
               float* z, float* n, int64_t count);
};

// At most as many entries of `sort_ids` (ops/update.h) at a time in add_up.
constexpr int64_t kEntriesAtOnce = 512;
struct SortedIdsVector {
  // Whether n entries ascend, and the places of those behind the first are below `places`.
  bool (*ascend)(const uint64_t* entries, int64_t n, uint64_t places);
  // The ids of n > 0 entries, each once, and the sum of the values of each in order of appearance.
  // Gives their number; both arrays have room for 16 more than n.
  int64_t (*add_up)(const uint64_t* entries, int64_t n, const float* values, int32_t* ids,
                    float* sums);
};

// What of a head's weights is dropped, by the draws of their logical indices: `first` is the index
// of the first one, rows of `time` follow each other.
struct WeightDropout {
  bool drops;
  uint32_t threshold;
  float scale;
  Draw draw;
  int64_t first;
};
// One head of attention: `time` rows of `size` elements, `row` apart; its log-sum-exps are
// `statistic` apart. The first `length` rows hold something; each sees the keys of all of them, or
// those up to its own. What is made of the rows behind is zero.
struct AttentionHead {
  int64_t time, size, row, statistic;
  float scale;
  bool causal;
  int64_t length;
  WeightDropout dropout = {};
};
template <typename T>
struct AttentionVector {
  // Floats of scratch, aligned to a cache line; a length has no part in it.
  int64_t (*forward_scratch)(const AttentionHead& head);
  int64_t (*backward_scratch)(const AttentionHead& head);
  void (*forward)(const AttentionHead& head, const T* q, const T* k, const T* v, T* y,
                  float* logsumexp, float* scratch);
  void (*backward)(const AttentionHead& head, const T* q, const T* k, const T* v, const T* y,
                   const float* logsumexp, const T* dy, T* dq, T* dk, T* dv, float* scratch);
};
struct CachedAttentionVector {
  // Of `rows` query rows whose own keys and values are k and v, behind `cached` rows of keys and
  // values; all are head.row apart. Scratch: as many floats as the last row sees.
  void (*forward)(const AttentionHead& head, int64_t rows, int64_t cached, const float* q,
                  const float* k, const float* v, const float* keys, const float* values, float* y,
                  float* scratch);
};

// What a product of tiles (tiled_product.h) is made of. Lines are rows of a or columns of b, packed
// as f32: strips of so many rows, panels of so many columns, one behind the other, and in each the
// lines' elements of one depth side by side; lines that are missing are zero.
constexpr int64_t kStripRows = 6, kPanelColumns = 16;
template <typename T>
using PackLoop = void (*)(const T* from, int64_t step, int64_t lines, int64_t depth, float* to);
template <typename T>
struct PackLoops {
  // Element d of line l is from[l * step + d] (along), or from[d * step + l] (across).
  PackLoop<T> strips_along, strips_across, panels_along, panels_across;
};
struct TiledProductVector {
  PackLoops<float> f32;
  PackLoops<BFloat16> bf16;
  // c[r * c_row + j], with or without what it was, plus the sum over the depth.
  void (*multiply)(const float* strips, int64_t rows, const float* panels, int64_t columns,
                   int64_t depth, bool add, float* c, int64_t c_row);
  // The same bits of b as it lies, [depth, columns]: faster for few rows, where packing b would
  // cost more than the product.
  void (*multiply_few)(const float* strips, int64_t rows, const float* b, int64_t b_row,
                       int64_t columns, int64_t depth, bool add, float* c, int64_t c_row);
};

// The loops over elements of one float type.
template <typename T>
struct FloatLoops {
  ElementwiseVector<T> elementwise;
  ActivationVector<T> activation;
  ReductionVector<T> reduction;
  CrossEntropyVector<T> cross_entropy;
  BatchNormVector<T> batch_norm;
  ChannelVector<T> channel;
  PoolVector<T> pool;
  AttentionVector<T> attention;
};

struct VectorTable {
  FloatLoops<float> f32;
  FloatLoops<BFloat16> bf16;
  ArithmeticVector arithmetic;
  NormalizationVector normalization;
  OptimizerVector optimizer;
  OptimizerAtIdsVector optimizer_at_ids;
  SortedIdsVector sorted_ids;
  SigmoidCrossEntropyVector sigmoid_cross_entropy;
  CachedAttentionVector cached_attention;
  BatchStatisticsVector batch_statistics;
  ImageVector image;

  // f32 or bf16.
  template <typename T>
  const FloatLoops<T>& of() const;
};

#define SLUICE_VECTORS_OF_LEVEL(level)                         \
  namespace level {                                            \
  extern const ElementwiseVector<float> kElementwise;          \
  extern const ElementwiseVector<BFloat16> kElementwiseBf16;   \
  extern const ActivationVector<float> kActivation;            \
  extern const ActivationVector<BFloat16> kActivationBf16;     \
  extern const ReductionVector<float> kReduction;              \
  extern const ReductionVector<BFloat16> kReductionBf16;       \
  extern const CrossEntropyVector<float> kCrossEntropy;        \
  extern const CrossEntropyVector<BFloat16> kCrossEntropyBf16; \
  extern const BatchNormVector<float> kBatchNorm;              \
  extern const BatchNormVector<BFloat16> kBatchNormBf16;       \
  extern const ChannelVector<float> kChannel;                  \
  extern const ChannelVector<BFloat16> kChannelBf16;           \
  extern const BatchStatisticsVector kBatchStatistics;         \
  extern const ImageVector kImage;                             \
  extern const PoolVector<float> kPool;                        \
  extern const PoolVector<BFloat16> kPoolBf16;                 \
  extern const ArithmeticVector kArithmetic;                   \
  extern const NormalizationVector kNormalization;             \
  extern const OptimizerVector kOptimizer;                     \
  extern const OptimizerAtIdsVector kOptimizerAtIds;           \
  extern const SortedIdsVector kSortedIds;                     \
  extern const SigmoidCrossEntropyVector kSigmoidCrossEntropy; \
  extern const AttentionVector<float> kAttention;              \
  extern const AttentionVector<BFloat16> kAttentionBf16;       \
  extern const CachedAttentionVector kCachedAttention;         \
  }
SLUICE_VECTORS_OF_LEVEL(v3)
SLUICE_VECTORS_OF_LEVEL(v4)
#undef SLUICE_VECTORS_OF_LEVEL
namespace v4_bf16 {
extern const AttentionVector<BFloat16> kAttentionBf16;
}
// In no table: it is of this level alone, and runs wherever there is a CPU device.
namespace v3 {
extern const TiledProductVector kTiledProduct;
}

// kV4Bf16 is kV4 but for what multiplies pairs of bf16.
enum class Isa { kV3, kV4, kV4Bf16 };
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
