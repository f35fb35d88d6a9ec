// Attention as a graph of cuDNN: products, softmax and masks, in the order that its engines for
// attention look for.
#include "absl/strings/str_format.h"
#include "framework/kernels/cuda/cudnn_cases.h"

namespace sluice::cuda {
namespace {

using TensorId = CudnnGraph::TensorId;

enum class Dropout {
  kNone,
  kMask,   // by a mask of ours, zeros and ones of the operands' type
  kDraws,  // of cuDNN's own
};

// Operands are [batch, time, heads, size], as our models have them; causal, or with lengths.
struct AttentionCase {
  const char* model;
  int64_t batch, heads, time, size;
  bool causal;
};

constexpr AttentionCase kAttentions[] = {
    {"gpt2_124m", 8, 12, 1024, 64, true},  {"gpt2_350m", 8, 16, 1024, 64, true},
    {"gpt2_xl", 2, 25, 1024, 64, true},    {"gpt_tiny", 4, 4, 100, 32, true},
    {"bert_base", 16, 12, 512, 64, false}, {"bert_base", 32, 12, 128, 64, false},
};

class AttentionGraph {
 public:
  AttentionGraph(const AttentionCase& c, cudnnDataType_t type, Dropout dropout, CudnnGraph& graph)
      : c_(c), type_(type), dropout_(dropout), graph_(graph) {
    const std::vector<int64_t> one(4, 1);
    if (!c.causal) lengths_ = graph.Tensor({c.batch, 1, 1, 1}, one, CUDNN_DATA_INT32);
    if (dropout == Dropout::kMask) mask_ = graph.Tensor(ScoreDims(), ScoreStrides(), type);
    if (dropout == Dropout::kDraws) {
      const TensorId seed = graph.Tensor(one, one, CUDNN_DATA_INT64);
      const TensorId offset = graph.Tensor(one, one, CUDNN_DATA_INT64);
      mask_ = Score(CUDNN_DATA_FLOAT);
      graph.Draw(seed, offset, 0.9, mask_);
    }
  }

  void Forward() {
    const TensorId q = Heads(), k = HeadsTransposed(), v = Heads(), y = Heads();
    const TensorId scores = Masked(Scores(q, k));
    const TensorId max = Row(), sum = Row();
    graph_.Reduce(CUDNN_REDUCE_TENSOR_MAX, scores, max);
    const TensorId weights = Do(CUDNN_POINTWISE_EXP, {Do(CUDNN_POINTWISE_SUB, {scores, max})});
    graph_.Reduce(CUDNN_REDUCE_TENSOR_ADD, weights, sum);
    const TensorId log = Row(), logsumexp = Row(CudnnStorage::kMemory);
    graph_.Pointwise(CUDNN_POINTWISE_LOG, {sum}, log);
    graph_.Pointwise(CUDNN_POINTWISE_ADD, {max, log}, logsumexp);
    const bool drops = dropout_ != Dropout::kNone;
    TensorId share = Do(CUDNN_POINTWISE_DIV, {weights, sum}, drops ? CUDNN_DATA_FLOAT : type_);
    if (dropout_ == Dropout::kMask) {
      share = Do(CUDNN_POINTWISE_MUL, {Scaled(share), mask_}, type_);
    } else if (drops) {
      share = Do(CUDNN_POINTWISE_MUL, {Do(CUDNN_POINTWISE_MUL, {share, mask_}), Number()}, type_);
    }
    graph_.Matmul(share, v, y);
  }

  void Backward() {
    const TensorId q = Heads(), k = HeadsTransposed(), v = HeadsTransposed(), y = Heads();
    const TensorId y_gradient = Heads(), logsumexp = Row(CudnnStorage::kMemory);
    const TensorId q_gradient = Heads(), k_gradient = Heads(), v_gradient = Heads();
    const bool drops = dropout_ != Dropout::kNone;
    // The sum that softmax's gradient takes away, a number a row. It is in memory because cuDNN
    // wants it there.
    const TensorId product =
        graph_.Tensor({c_.batch, c_.heads, c_.time, c_.size},
                      {c_.heads * c_.time * c_.size, c_.time * c_.size, c_.size, 1},
                      CUDNN_DATA_FLOAT, CudnnStorage::kVirtual);
    graph_.Pointwise(CUDNN_POINTWISE_MUL, {y_gradient, y}, product);
    const TensorId row = Row(), subtracted = Row(CudnnStorage::kMemory);
    graph_.Reduce(CUDNN_REDUCE_TENSOR_ADD, product, row);
    graph_.Pointwise(CUDNN_POINTWISE_MUL, {row, Number()}, subtracted);

    const TensorId scores = Do(CUDNN_POINTWISE_SUB, {Scores(q, k), logsumexp});
    const TensorId weights = Do(CUDNN_POINTWISE_EXP, {Masked(scores)});
    TensorId dropped = weights;
    if (drops) dropped = Scaled(Do(CUDNN_POINTWISE_MUL, {weights, mask_}));
    graph_.Matmul(Transposed(dropped), y_gradient, v_gradient);

    TensorId gradient = Score(CUDNN_DATA_FLOAT);
    graph_.Matmul(y_gradient, v, gradient);
    if (drops) gradient = Do(CUDNN_POINTWISE_MUL, {gradient, mask_});
    gradient = Do(CUDNN_POINTWISE_SUB, {gradient, subtracted});
    gradient = Do(CUDNN_POINTWISE_MUL, {gradient, weights});
    if (drops) gradient = Scaled(gradient);
    gradient = Scaled(gradient);
    graph_.Matmul(Transposed(gradient), q, k_gradient);
    const TensorId k_rows = Heads(CudnnStorage::kVirtual);
    graph_.Reshape(k, k_rows);
    graph_.Matmul(gradient, k_rows, q_gradient);
  }

 private:
  // [batch, heads, time, size] of what lies as [batch, time, heads, size].
  TensorId Heads(CudnnStorage storage = CudnnStorage::kMemory) {
    return graph_.Tensor({c_.batch, c_.heads, c_.time, c_.size},
                         {c_.time * c_.heads * c_.size, c_.size, c_.heads * c_.size, 1}, type_,
                         storage);
  }
  TensorId HeadsTransposed() {
    return graph_.Tensor({c_.batch, c_.heads, c_.size, c_.time},
                         {c_.time * c_.heads * c_.size, c_.size, 1, c_.heads * c_.size}, type_);
  }
  std::vector<int64_t> ScoreDims() const { return {c_.batch, c_.heads, c_.time, c_.time}; }
  std::vector<int64_t> ScoreStrides() const {
    return {c_.heads * c_.time * c_.time, c_.time * c_.time, c_.time, 1};
  }
  TensorId Score(cudnnDataType_t type) {
    return graph_.Tensor(ScoreDims(), ScoreStrides(), type, CudnnStorage::kVirtual);
  }
  // A number a row.
  TensorId Row(CudnnStorage storage = CudnnStorage::kVirtual) {
    return graph_.Tensor({c_.batch, c_.heads, c_.time, 1}, {c_.heads * c_.time, c_.time, 1, 1},
                         CUDNN_DATA_FLOAT, storage);
  }
  TensorId Number() { return graph_.Number(CUDNN_DATA_FLOAT); }
  TensorId Do(cudnnPointwiseMode_t mode, const std::vector<TensorId>& inputs,
              cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    const TensorId y = Score(type);
    graph_.Pointwise(mode, inputs, y);
    return y;
  }
  TensorId Scaled(TensorId scores) { return Do(CUDNN_POINTWISE_MUL, {scores, Number()}); }
  // In the operands' type, with rows as columns.
  TensorId Transposed(TensorId scores) {
    const TensorId y =
        graph_.Tensor(ScoreDims(), {c_.heads * c_.time * c_.time, c_.time * c_.time, 1, c_.time},
                      type_, CudnnStorage::kVirtual);
    graph_.Reshape(scores, y);
    return y;
  }

  // q k^T, scaled; what is no sample's is taken out.
  TensorId Scores(TensorId q, TensorId k) {
    const TensorId product = Score(CUDNN_DATA_FLOAT);
    graph_.Matmul(q, k, product);
    const TensorId scaled = Scaled(product);
    if (lengths_.number == 0) return scaled;
    const TensorId row = Compare(CUDNN_POINTWISE_CMP_LT, Index(scaled, 2), lengths_);
    const TensorId column = Compare(CUDNN_POINTWISE_CMP_LT, Index(scaled, 3), lengths_);
    return Select(scaled, Compare(CUDNN_POINTWISE_LOGICAL_AND, row, column));
  }
  TensorId Masked(TensorId scores) {
    if (!c_.causal) return scores;
    const TensorId row = Index(scores, 2), column = Index(scores, 3);
    return Select(scores, Compare(CUDNN_POINTWISE_CMP_GE, row, column));
  }
  TensorId Index(TensorId scores, int64_t axis) {
    const TensorId y = Score(CUDNN_DATA_INT32);
    graph_.Pointwise(CUDNN_POINTWISE_GEN_INDEX, {scores}, y, CUDNN_DATA_INT32, axis);
    return y;
  }
  TensorId Compare(cudnnPointwiseMode_t mode, TensorId a, TensorId b) {
    const TensorId y = Score(CUDNN_DATA_BOOLEAN);
    graph_.Pointwise(mode, {a, b}, y, CUDNN_DATA_BOOLEAN);
    return y;
  }
  TensorId Select(TensorId scores, TensorId seen) {
    return Do(CUDNN_POINTWISE_BINARY_SELECT, {scores, Number(), seen});
  }

  const AttentionCase c_;
  const cudnnDataType_t type_;
  const Dropout dropout_;
  CudnnGraph& graph_;
  TensorId lengths_, mask_;
};

}  // namespace

void AddCudnnAttentionCases(std::vector<CudnnCase>* cases) {
  constexpr struct {
    Dropout dropout;
    const char* name;
  } kDropouts[] = {{Dropout::kNone, "none"}, {Dropout::kMask, "mask"}, {Dropout::kDraws, "draws"}};
  for (const AttentionCase& c : kAttentions) {
    for (const cudnnDataType_t type : {CUDNN_DATA_FLOAT, CUDNN_DATA_BFLOAT16}) {
      for (const auto& dropout : kDropouts) {
        for (const bool forward : {true, false}) {
          cases->push_back(
              {absl::StrFormat("%s attention %s %s %s dropout=%s batch=%d heads=%d time=%d size=%d",
                               c.model, forward ? "forward" : "backward", CudnnTypeName(type),
                               c.causal ? "causal" : "padded", dropout.name, c.batch, c.heads,
                               c.time, c.size),
               [=](CudnnGraph& graph) {
                 AttentionGraph attention(c, type, dropout.dropout, graph);
                 forward ? attention.Forward() : attention.Backward();
               },
               CudnnNotesWithout(type)});
        }
      }
    }
  }
}

}  // namespace sluice::cuda
