#include "framework/kernels/cuda/cudnn_attention_graph.h"

#include <limits>

namespace sluice::cuda {

using TensorId = CudnnGraph::TensorId;

CudnnAttentionGraph::CudnnAttentionGraph(const CudnnAttentionShape& shape, CudnnGraph* graph)
    : s_(shape), graph_(*graph) {
  const std::vector<int64_t> one(4, 1);
  if (!s_.causal) {
    const int64_t scores = s_.time * s_.time;
    tensors_.bias =
        graph_.Tensor({s_.batch, 1, s_.time, s_.time}, {scores, scores, s_.time, 1}, s_.type);
  }
  if (s_.dropout == CudnnDropout::kMask) {
    ones_ = tensors_.mask = graph_.Tensor(ScoreDims(), ScoreStrides(), s_.type);
  }
  if (s_.dropout == CudnnDropout::kDraws) {
    tensors_.seed = graph_.Tensor(one, one, CUDNN_DATA_INT64);
    tensors_.offset = graph_.Tensor(one, one, CUDNN_DATA_INT64);
    ones_ = Score(CUDNN_DATA_FLOAT);
    graph_.Draw(tensors_.seed, tensors_.offset, s_.keep, ones_);
  }
}

void CudnnAttentionGraph::Forward() {
  tensors_.q = Heads();
  tensors_.k = HeadsTransposed();
  tensors_.v = Heads();
  tensors_.y = Heads();
  const TensorId scores = Masked(Scores(tensors_.q, tensors_.k));
  const TensorId max = Row(), sum = Row();
  graph_.Reduce(CUDNN_REDUCE_TENSOR_MAX, scores, max);
  const TensorId weights = Do(CUDNN_POINTWISE_EXP, {Do(CUDNN_POINTWISE_SUB, {scores, max})});
  graph_.Reduce(CUDNN_REDUCE_TENSOR_ADD, weights, sum);
  const TensorId log = Row();
  tensors_.logsumexp = Row(CudnnStorage::kMemory);
  graph_.Pointwise(CUDNN_POINTWISE_LOG, {sum}, log);
  graph_.Pointwise(CUDNN_POINTWISE_ADD, {max, log}, tensors_.logsumexp);
  const bool drops = s_.dropout != CudnnDropout::kNone;
  TensorId share = Do(CUDNN_POINTWISE_DIV, {weights, sum}, drops ? CUDNN_DATA_FLOAT : s_.type);
  if (s_.dropout == CudnnDropout::kMask) {
    share = Do(CUDNN_POINTWISE_MUL, {Times(share, 1 / s_.keep), ones_}, s_.type);
  } else if (drops) {
    const TensorId kept = Do(CUDNN_POINTWISE_MUL, {share, ones_});
    share = Do(CUDNN_POINTWISE_MUL, {kept, Number(1 / s_.keep)}, s_.type);
  }
  graph_.Matmul(share, tensors_.v, tensors_.y);
}

void CudnnAttentionGraph::Backward() {
  tensors_.q = Heads();
  tensors_.k = HeadsTransposed();
  tensors_.v = HeadsTransposed();
  tensors_.y = Heads();
  tensors_.y_gradient = Heads();
  tensors_.logsumexp = Row(CudnnStorage::kMemory);
  tensors_.q_gradient = Heads();
  tensors_.k_gradient = Heads();
  tensors_.v_gradient = Heads();
  const bool drops = s_.dropout != CudnnDropout::kNone;
  // The sum that softmax's gradient takes away, a number a row.
  const TensorId product =
      graph_.Tensor({s_.batch, s_.heads, s_.time, s_.size},
                    {s_.heads * s_.time * s_.size, s_.time * s_.size, s_.size, 1}, CUDNN_DATA_FLOAT,
                    CudnnStorage::kVirtual);
  graph_.Pointwise(CUDNN_POINTWISE_MUL, {tensors_.y_gradient, tensors_.y}, product);
  const TensorId row = Row();
  tensors_.slopes = Row(CudnnStorage::kMemory);
  graph_.Reduce(CUDNN_REDUCE_TENSOR_ADD, product, row);
  // With a mask cuDNN multiplies by 1, whatever stands here: the caller's y has the share.
  const float kept = s_.dropout == CudnnDropout::kMask ? 1 : s_.keep;
  graph_.Pointwise(CUDNN_POINTWISE_MUL, {row, Number(kept)}, tensors_.slopes);

  const TensorId scores =
      Do(CUDNN_POINTWISE_SUB, {Scores(tensors_.q, tensors_.k), tensors_.logsumexp});
  const TensorId weights = Do(CUDNN_POINTWISE_EXP, {Masked(scores)});
  TensorId dropped = weights;
  if (drops) dropped = Times(Do(CUDNN_POINTWISE_MUL, {weights, ones_}), 1 / s_.keep);
  graph_.Matmul(Transposed(dropped), tensors_.y_gradient, tensors_.v_gradient);

  TensorId gradient = Score(CUDNN_DATA_FLOAT);
  graph_.Matmul(tensors_.y_gradient, tensors_.v, gradient);
  if (drops) gradient = Do(CUDNN_POINTWISE_MUL, {gradient, ones_});
  gradient = Do(CUDNN_POINTWISE_SUB, {gradient, tensors_.slopes});
  gradient = Do(CUDNN_POINTWISE_MUL, {gradient, weights});
  if (drops) gradient = Times(gradient, 1 / s_.keep);
  gradient = Times(gradient, s_.scale);
  graph_.Matmul(Transposed(gradient), tensors_.q, tensors_.k_gradient);
  const TensorId k_rows = Heads(CudnnStorage::kVirtual);
  graph_.Reshape(tensors_.k, k_rows);
  graph_.Matmul(gradient, k_rows, tensors_.q_gradient);
}

int64_t CudnnAttentionGraph::RowSize() const {
  return (s_.row_heads == 0 ? s_.heads : s_.row_heads) * s_.size;
}
TensorId CudnnAttentionGraph::Heads(CudnnStorage storage) {
  return graph_.Tensor({s_.batch, s_.heads, s_.time, s_.size},
                       {s_.time * RowSize(), s_.size, RowSize(), 1}, s_.type, storage);
}
TensorId CudnnAttentionGraph::HeadsTransposed() {
  return graph_.Tensor({s_.batch, s_.heads, s_.size, s_.time},
                       {s_.time * RowSize(), s_.size, 1, RowSize()}, s_.type);
}

std::vector<int64_t> CudnnAttentionGraph::ScoreDims() const {
  return {s_.batch, s_.heads, s_.time, s_.time};
}
std::vector<int64_t> CudnnAttentionGraph::ScoreStrides() const {
  return {s_.heads * s_.time * s_.time, s_.time * s_.time, s_.time, 1};
}
TensorId CudnnAttentionGraph::Score(cudnnDataType_t type) {
  return graph_.Tensor(ScoreDims(), ScoreStrides(), type, CudnnStorage::kVirtual);
}
TensorId CudnnAttentionGraph::Row(CudnnStorage storage) {
  return graph_.Tensor({s_.batch, s_.heads, s_.time, 1}, {s_.heads * s_.time, s_.time, 1, 1},
                       CUDNN_DATA_FLOAT, storage);
}

TensorId CudnnAttentionGraph::Number(float value) {
  const TensorId number = graph_.Number(CUDNN_DATA_FLOAT);
  numbers_[number.number] = value;
  return number;
}
TensorId CudnnAttentionGraph::Do(cudnnPointwiseMode_t mode, const std::vector<TensorId>& inputs,
                                 cudnnDataType_t type) {
  const TensorId y = Score(type);
  graph_.Pointwise(mode, inputs, y);
  return y;
}
TensorId CudnnAttentionGraph::Times(TensorId scores, float factor) {
  return Do(CUDNN_POINTWISE_MUL, {scores, Number(factor)});
}
TensorId CudnnAttentionGraph::Transposed(TensorId scores) {
  const TensorId y =
      graph_.Tensor(ScoreDims(), {s_.heads * s_.time * s_.time, s_.time * s_.time, 1, s_.time},
                    s_.type, CudnnStorage::kVirtual);
  graph_.Reshape(scores, y);
  return y;
}

TensorId CudnnAttentionGraph::Scores(TensorId q, TensorId k) {
  const TensorId product = Score(CUDNN_DATA_FLOAT);
  graph_.Matmul(q, k, product);
  const TensorId scaled = Times(product, s_.scale);
  if (s_.causal) return scaled;
  return Do(CUDNN_POINTWISE_ADD, {scaled, tensors_.bias});
}
TensorId CudnnAttentionGraph::Masked(TensorId scores) {
  if (!s_.causal) return scores;
  const TensorId row = Index(scores, 2), column = Index(scores, 3);
  return Select(scores, Compare(CUDNN_POINTWISE_CMP_GE, row, column));
}
TensorId CudnnAttentionGraph::Index(TensorId scores, int64_t axis) {
  const TensorId y = Score(CUDNN_DATA_INT32);
  graph_.Pointwise(CUDNN_POINTWISE_GEN_INDEX, {scores}, y, CUDNN_DATA_INT32, axis);
  return y;
}
TensorId CudnnAttentionGraph::Compare(cudnnPointwiseMode_t mode, TensorId a, TensorId b) {
  const TensorId y = Score(CUDNN_DATA_BOOLEAN);
  graph_.Pointwise(mode, {a, b}, y, CUDNN_DATA_BOOLEAN);
  return y;
}
TensorId CudnnAttentionGraph::Select(TensorId scores, TensorId seen) {
  return Do(CUDNN_POINTWISE_BINARY_SELECT,
            {scores, Number(std::numeric_limits<float>::lowest()), seen});
}

}  // namespace sluice::cuda
