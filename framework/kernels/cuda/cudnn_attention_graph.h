// Attention as a graph of cuDNN: products, softmax and masks, in the order that its engines for
// attention look for.
#ifndef SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_ATTENTION_GRAPH_H_
#define SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_ATTENTION_GRAPH_H_

#include <cstdint>
#include <map>
#include <vector>

#include "framework/kernels/cuda/cudnn_dropout.h"
#include "framework/kernels/cuda/cudnn_graph.h"

namespace sluice::cuda {

// Operands are [batch, time, heads, size], as our models have them. Causal, or with what is added
// to the scores of each key, by which padding is hidden.
struct CudnnAttentionShape {
  int64_t batch = 0, heads = 0, time = 0, size = 0;
  bool causal = true;
  cudnnDataType_t type = CUDNN_DATA_BFLOAT16;
  CudnnDropout dropout = CudnnDropout::kNone;
  float scale = 1;  // of scores
  float keep = 1;   // probability of a one in the mask
  // Heads that lie beside each other in the operands, where these are some of them; 0: no others.
  int64_t row_heads = 0;
};

class CudnnAttentionGraph {
 public:
  using TensorId = CudnnGraph::TensorId;

  // In memory; those that a graph does not have are of number 0.
  struct Tensors {
    TensorId q, k, v, y, logsumexp;  // the latter [batch, time, heads], f32
    TensorId y_gradient, q_gradient, k_gradient, v_gradient;  // of the backward
    // [batch, time, heads] of f32, of no use to anybody else: cuDNN wants it in memory.
    TensorId slopes;
    // Of the operands' type, [batch, queries, keys]; if not causal. cuDNN's documentation knows no
    // bias that all queries share, though its heuristic takes one.
    TensorId bias;
    TensorId mask, seed, offset;
  };

  CudnnAttentionGraph(const CudnnAttentionShape& shape, CudnnGraph* graph);
  void Forward();
  void Backward();

  const Tensors& tensors() const { return tensors_; }
  // What the numbers by value are, by the numbers of their tensors.
  const std::map<int64_t, float>& numbers() const { return numbers_; }

 private:
  int64_t RowSize() const;  // elements of all heads of a row
  // [batch, heads, time, size] of what lies as [batch, time, heads, size].
  TensorId Heads(CudnnStorage storage = CudnnStorage::kMemory);
  TensorId HeadsTransposed();
  std::vector<int64_t> ScoreDims() const;
  std::vector<int64_t> ScoreStrides() const;
  TensorId Score(cudnnDataType_t type);
  // A number a row.
  TensorId Row(CudnnStorage storage = CudnnStorage::kVirtual);
  TensorId Number(float value);
  TensorId Do(cudnnPointwiseMode_t mode, const std::vector<TensorId>& inputs,
              cudnnDataType_t type = CUDNN_DATA_FLOAT);
  TensorId Times(TensorId scores, float factor);
  // In the operands' type, with rows as columns.
  TensorId Transposed(TensorId scores);
  // q k^T, scaled, and the bias.
  TensorId Scores(TensorId q, TensorId k);
  TensorId Masked(TensorId scores);
  TensorId Index(TensorId scores, int64_t axis);
  TensorId Compare(cudnnPointwiseMode_t mode, TensorId a, TensorId b);
  TensorId Select(TensorId scores, TensorId seen);

  const CudnnAttentionShape s_;
  CudnnGraph& graph_;
  Tensors tensors_;
  TensorId ones_;  // of the dropout
  std::map<int64_t, float> numbers_;
};

}  // namespace sluice::cuda

#endif  // SLUICE_FRAMEWORK_KERNELS_CUDA_CUDNN_ATTENTION_GRAPH_H_
