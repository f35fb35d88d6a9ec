// The catalogue: every op as a function over Tensor. An error (shapes that do not fit) is sticky in
// the graph; the functions then return empty tensors. The OpDef of each stands in the file of its
// family; all_ops.h lists them in order.
#ifndef SLUICE_FRAMEWORK_OPS_OPS_H_
#define SLUICE_FRAMEWORK_OPS_OPS_H_

#include <vector>

#include "framework/graph/graph.h"

namespace sluice {

// ---- matmul.cc ----
// a [...,m,k] (transpose_a: [...,k,m]) times b: either of the same rank with equal leading
// dimensions, or a matrix [k,n] (transpose_b: [n,k]) shared by all. transpose_a needs equal ranks.
Tensor MatMul(Tensor a, Tensor b, bool transpose_a = false, bool transpose_b = false);

// ---- arithmetic.cc ---- trailing dimensions align; size 1 and missing ones are broadcast
Tensor Add(Tensor a, Tensor b);
Tensor Subtract(Tensor a, Tensor b);
Tensor Multiply(Tensor a, Tensor b);
Tensor Divide(Tensor a, Tensor b);
Tensor Scale(Tensor x, double factor);
Tensor AddN(const std::vector<Tensor>& terms);  // equal shapes, summed in order
inline Tensor operator+(Tensor a, Tensor b) { return Add(a, b); }
inline Tensor operator-(Tensor a, Tensor b) { return Subtract(a, b); }
inline Tensor operator*(Tensor a, Tensor b) { return Multiply(a, b); }
inline Tensor operator/(Tensor a, Tensor b) { return Divide(a, b); }

// ---- movement.cc ----
Tensor Fill(Graph* graph, double value, const Shape& shape, DType dtype = DType::kF32);
Tensor Reshape(Tensor x, const Shape& shape);
Tensor Transpose(Tensor x, const Shape& permutation);
Tensor SliceDim(Tensor x, int dim, int64_t begin, int64_t end);
Tensor PadDim(Tensor x, int dim, int64_t begin,
              int64_t whole);  // zeros around; adjoint of SliceDim
Tensor Concat(const std::vector<Tensor>& parts, int dim);
Tensor Cast(Tensor x, DType dtype);
Tensor BroadcastTo(Tensor x, const Shape& shape);  // adjoint of a sum; trailing dimensions align

// ---- reduction.cc ---- the reduced dimensions vanish
Tensor ReduceSum(Tensor x, const Shape& dims);
Tensor ReduceMax(Tensor x, const Shape& dims);
Tensor ReduceMean(Tensor x, const Shape& dims);
Tensor Mean(Tensor x);        // over all dimensions: a scalar
Tensor SumSquares(Tensor x);  // a scalar

// ---- activation.cc ----
Tensor Gelu(Tensor x);     // tanh form
Tensor GeluErf(Tensor x);  // x times the normal distribution function of x
Tensor Silu(Tensor x);     // x times its sigmoid
Tensor Sigmoid(Tensor x);
Tensor Tanh(Tensor x);
Tensor Relu(Tensor x);
Tensor Softmax(Tensor x);  // over the last dimension
Tensor Dropout(Tensor x,
               double rate);  // keep with 1-rate, scaled by 1/(1-rate); its own key by name

// ---- normalization.cc ----
Tensor LayerNorm(Tensor x, Tensor gamma, Tensor beta, double epsilon = 1e-5);

// ---- batch_norm.cc ---- over the last dimension, channels last
// Statistics are taken over each of `groups` equal ranges of dimension 0 apart: an axis may
// distribute whole groups, and where it splits within one, the parts are added up.
struct BatchNormResult {
  Tensor y;               // as x
  Tensor mean, variance;  // [groups, channels]; the variance is biased
};
BatchNormResult BatchNorm(Tensor x, Tensor gamma, Tensor beta, int64_t groups,
                          double epsilon = 1e-5);
// By given statistics, [channels] each: evaluation.
Tensor BatchNormBy(Tensor x, Tensor mean, Tensor variance, Tensor gamma, Tensor beta,
                   double epsilon = 1e-5);
// At the end of the step: variable = (1 - momentum) variable + momentum value, once a step,
// whatever the micro-batches that the value comes from.
void MovingAverage(Tensor variable, Tensor value, double momentum);

// ---- prelu.cc, l2_normalize.cc, top_k.cc ----
Tensor Prelu(Tensor x, Tensor slope);                  // slope [channels], of the last dimension
Tensor L2Normalize(Tensor x, double epsilon = 1e-12);  // x / max(its length, epsilon), by rows
// logits [...,v], i32 labels [...] -> [...]: 1 where the label is among the k largest logits of its
// row, else 0; of equal logits the earlier is the larger.
Tensor TopKHits(Tensor logits, Tensor labels, int64_t k);

// ---- normalize_images.cc ----
// Pictures as they are fed, u8 [.., channels], to f32: (x / 255 - mean) / stddev, with one mean and
// one standard deviation a channel, as torchvision gives them. x has no gradient.
Tensor NormalizeImages(Tensor x, const std::vector<double>& mean,
                       const std::vector<double>& stddev);

// ---- attention.cc ----
// q, k, v [batch, time, heads, size] -> [batch, time, heads, size]; position t sees 0..t. `dropout`
// is a rate, of the weights [batch, heads, queries, keys], as Dropout has it. `library_draws`
// leaves to a CUDA device's library which of them are dropped: those are other draws than a CPU's,
// differ between layouts, and are had in bf16 alone.
Tensor CausalAttention(Tensor q, Tensor k, Tensor v, double dropout = 0,
                       bool library_draws = false);
// Of a sample's first lengths[b] rows, each sees all of them; the rows behind are zero, and neither
// they nor what they are made of has a gradient. lengths: i32 [batch], each in [0, time].
Tensor PaddedAttention(Tensor q, Tensor k, Tensor v, Tensor lengths, double dropout = 0);

// ---- cached_attention.cc ----
// q, k, v: [batch, rows, heads, size] of the rows at position[b], position[b] + 1, .. of each
// sample; keys and values: [batch, time, heads, size] of those before. Each row sees the cached
// ones before position[b] and the new ones up to its own. position: i32 [batch], 0 to time - rows.
Tensor CachedAttention(Tensor q, Tensor k, Tensor v, Tensor keys, Tensor values, Tensor position);
// At the end of the step: the cache's rows from position[b] on become `rows`.
void WriteRows(Tensor cache, Tensor rows, Tensor position);

// ---- convolution.cc ----
// x [images, height, width, channels], w [height, width, channels / groups, output channels] (HWIO)
// -> y [images, height, width, output channels], PyTorch's conv2d without bias. Images and channels
// may be split over a mesh, channels only where groups is 1; height and width never. In memory a
// pixel's channels lie side by side, and so do the weights of a kernel element's output channels:
// a split of either is one of whole runs, and a 1x1 kernel is the matrix of a linear layer.
Tensor Conv2d(Tensor x, Tensor w, const ConvolutionAttributes& attributes = {});

// ---- pool.cc ---- over height and width of [images, height, width, channels], as PyTorch's pools
Tensor MaxPool(Tensor x, const PoolAttributes& attributes);  // NaN wins; of equals, the first
Tensor AveragePool(Tensor x, const PoolAttributes& attributes);

// ---- embedding.cc ----
// [rows,width], i32 [...] -> [...,width]; of groups [groups,rows,width], i32 [groups,n] ->
// [groups,n,width].
Tensor Embedding(Tensor table, Tensor ids);

// ---- sample_classes.cc ----
struct ClassSample {
  // i32 [groups, count]: classes of each group, counted from its first one.
  Tensor classes;
  // i32 [batch]: where the class of each label stands, in the groups' samples one behind the other.
  Tensor positions;
};
// Of `groups` equal ranges of `classes` classes each `count`: those of the labels [batch], which
// count from the first class of all, and others that every step draws anew.
ClassSample SampleClasses(Tensor labels, int64_t classes, int64_t groups, int64_t count);

// ---- cross_entropy.cc ---- max, sum-exp, pick, combine: a split vocabulary is no special case
// logits [...,v], i32 labels [...] -> loss per position [...].
// smoothing: the share of the target that all classes have alike, as in PyTorch.
Tensor SoftmaxCrossEntropy(Tensor logits, Tensor labels, double smoothing = 0);

// ---- sigmoid_cross_entropy.cc ----
// Of each logit, whose label is 0, 1 or a probability between: -log of the probability that the
// sigmoid of the logit gives the label. Finite whatever the logit is.
Tensor SigmoidCrossEntropy(Tensor logits, Tensor labels);

// ---- margin.cc ---- a split of the classes is no special case
// cosine [...,classes] of the angle theta to each class, i32 labels [...] -> logits for a softmax
// that asks for more than the smallest angle: scale (cos(theta + angular) - additive) at the
// label's class, scale cos(theta) elsewhere. ArcFace (Deng et al. 2019): scale 64, angular 0.5;
// CosFace (Wang et al. 2018): additive 0.4. Where theta + angular would pass pi, the cosine less
// angular sin(angular) takes its place, as InsightFace has it, so that it goes on falling.
Tensor MarginLogits(Tensor cosine, Tensor labels, const MarginAttributes& attributes);

// ---- optimizer.cc ---- variables change in place; scalars are f32 (step: i32), shape []
// factor: what the gradient is multiplied by (clip); empty for none.
// Of a gradient of rows, here and in SumSquares: what `sort_ids` makes of the ids, and the values.
// step counts from 1: a momentum begins with the whole first gradient, whatever the dampening is.
void SgdUpdate(Tensor variable, Tensor momentum, const Gradient& gradient, Tensor factor,
               Tensor learning_rate, Tensor step, const SgdAttributes& attributes);
// ---- adamw.cc, adagrad.cc, ftrl.cc ---- as above; states begin with zeros
// PyTorch's AdamW: decay first, epsilon outside the root. Without bias correction it is Google's
// Adam of BERT.
void AdamWUpdate(Tensor variable, Tensor m, Tensor v, const Gradient& gradient, Tensor factor,
                 Tensor learning_rate, Tensor step, const AdamWAttributes& attributes);
// The same where the state may lie otherwise than the variable: the state changes in place, the
// variable stays. Of a gradient of rows: what each row becomes, in the gradient's order.
Tensor SgdValue(Tensor variable, Tensor momentum, const Gradient& gradient, Tensor factor,
                Tensor learning_rate, Tensor step, const SgdAttributes& attributes);
Tensor AdamWValue(Tensor variable, Tensor m, Tensor v, const Gradient& gradient, Tensor factor,
                  Tensor learning_rate, Tensor step, const AdamWAttributes& attributes);
// PyTorch's AdaGrad: decay is part of the gradient, epsilon outside the root.
void AdagradUpdate(Tensor variable, Tensor sum, const Gradient& gradient, Tensor factor,
                   Tensor learning_rate, const AdagradAttributes& attributes);
Tensor AdagradValue(Tensor variable, Tensor sum, const Gradient& gradient, Tensor factor,
                    Tensor learning_rate, const AdagradAttributes& attributes);
// FTRL-Proximal (McMahan et al. 2013). What does not begin as 0 is forgotten with its first
// gradient.
void FtrlUpdate(Tensor variable, Tensor z, Tensor n, const Gradient& gradient, Tensor factor,
                Tensor learning_rate, const FtrlAttributes& attributes);
Tensor FtrlValue(Tensor variable, Tensor z, Tensor n, const Gradient& gradient, Tensor factor,
                 Tensor learning_rate, const FtrlAttributes& attributes);
// Puts what these gave for the gradient into the variable.
void Assign(Tensor variable, const Gradient& gradient, Tensor value);
// Rows: repeated ids are added first. Each shard of a table squares its own.
Tensor SumSquares(Tensor variable, const Gradient& gradient);

// ---- update_factors.cc ----
Tensor ClipFactor(Tensor sum_squares, double max_norm);  // min(1, max_norm / (norm + 1e-6))
// LARS (You et al. 2017): how far a layer may go for its weights' length. 1 where either is zero.
Tensor TrustRatio(Tensor variable_sum_squares, Tensor gradient_sum_squares, Tensor factor,
                  const LarsAttributes& attributes);

// ---- lars.cc ---- as above; ratio: the layer's
// momentum = m momentum + learning_rate ratio (factor gradient + weight_decay variable), which the
// variable loses.
void LarsUpdate(Tensor variable, Tensor momentum, const Gradient& gradient, Tensor factor,
                Tensor learning_rate, Tensor ratio, const LarsAttributes& attributes);
Tensor LarsValue(Tensor variable, Tensor momentum, const Gradient& gradient, Tensor factor,
                 Tensor learning_rate, Tensor ratio, const LarsAttributes& attributes);

// ---- lamb.cc ----
// Where AdamW goes for a learning rate of one, decay and all: the state changes in place, the
// variable stays.
Tensor AdamDirection(Tensor variable, Tensor m, Tensor v, Tensor gradient, Tensor factor,
                     Tensor step, const AdamWAttributes& attributes);

Tensor Sqrt(Tensor x);
Tensor AddSparse(Tensor dense, const Gradient& rows);  // dense + rows scattered

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_OPS_OPS_H_
