// What makes a random graph (random_graph.h), for the files random_graph*.cc alone.
//
// A graph grows place by place. At each place every candidate, a pattern or an op of the list, bids
// a number that is drawn from the seed, the place and the candidate's own name, and the best bid
// that suits the tensor at hand is taken; whatever is then drawn comes from the same three. So a
// new op takes a few places and leaves all others as they were.
#ifndef SLUICE_FRAMEWORK_TESTING_RANDOM_GRAPH_BUILDER_H_
#define SLUICE_FRAMEWORK_TESTING_RANDOM_GRAPH_BUILDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "framework/testing/random_graph.h"

namespace sluice {

class RandomGraphBuilder {
 public:
  RandomGraphBuilder(uint64_t seed, DType dtype, RandomGraph* out)
      : seed_(seed), dtype_(dtype), graph_(out->graph.get()), out_(out) {}

  absl::Status Build(int steps);

 private:
  struct Input {
    std::string name;
    DType dtype;
    Shape shape;
    int64_t below;  // of integers; 0: normal deviates
  };
  // A way to make a tensor out of x that takes more than one op, or one of special shape; empty
  // where it does not suit x. A pattern of weight 4 is taken as often as an op.
  struct Pattern {
    const char* name;
    int weight;
    Tensor (RandomGraphBuilder::*grow)(Tensor x);
  };
  static const std::vector<Pattern>& Patterns();

  // ---- random_graph.cc: draws
  // What is drawn from here on depends on the seed and these two alone.
  void Reseed(absl::string_view what, int64_t place);
  uint64_t Next();
  int64_t Below(int64_t n) { return static_cast<int64_t>(Next() % n); }
  bool Chance(int percent) { return Below(100) < percent; }
  int64_t Width() { return Chance(10) ? 1 : 2 + Below(7); }
  // An annotation on some axes of the mesh. `partial`: the tensor may be wanted partial.
  std::string Words(const Shape& shape, int percent, bool partial);
  // Of every third variable the state lies apart. Without a draw.
  std::string StateWords(const Shape& shape) const;

  // ---- random_graph.cc: tensors
  int32_t Stage() const;
  Tensor Variable(const Shape& shape) { return Variable(shape, Words(shape, 45, false)); }
  Tensor Variable(const Shape& shape, const std::string& annotation, const char* init = "normal");
  // Of a batch, unless an annotation is given.
  Tensor NewInput(DType dtype, const Shape& shape, int64_t below,
                  std::string annotation = "data:S0");
  static int64_t Last(Tensor x) { return x.shape()[x.shape().rank() - 1]; }
  static Shape Leading(const Shape& shape) {
    return Shape(shape.dims().subspan(0, shape.rank() - 1));
  }
  // Of ids for each row of a tensor of the batch: positions are split as well, now and then.
  std::string Ids(const Shape& x) {
    return x.rank() > 2 && x[1] > 1 && Chance(25) ? "data:S0 model:S1" : "data:S0";
  }
  static bool IsMatrixLike(Tensor x) { return x.shape().rank() >= 2; }
  bool IsUnannotated(Tensor x) const { return graph_->tensor(x.id()).annotation.empty(); }
  // Products of activations grow fast from op to op, and faster from step to step.
  bool MayMultiply() { return products_++ < 1; }

  // ---- random_graph.cc: the graph
  Tensor Begin();
  void Grow();
  void SideOutput(Tensor x);
  absl::Status End();
  void Feed(int step);

  // ---- random_graph_ops.cc: one op of the list, by its cases and its index rule
  struct Call {
    OpCase op_case;  // of extents that suit x, in the graph's dtype
    size_t join;     // the input that x is; the number of inputs: x is added to the result
    std::vector<TensorType> outputs;
    std::string batch;  // the factor of x's first dimension
    TensorFactors factors;
  };
  Tensor GrowOp(const OpDef& op, Tensor x);
  std::optional<Call> Fit(const OpDef& op, const OpCase& op_case, const Shape& x, size_t join);
  // x as a tensor of the case's shape, but for the first dimension: that of the batch.
  Tensor Project(Tensor x, const Shape& shape);
  // Numbers of at least 1, for an op that takes no others.
  Tensor Positive(Tensor x);
  Tensor Place(const OpDef& op, const Call& call, Tensor x);
  Tensor Operand(const Call& call, size_t input, const std::string& asked);
  // An annotation for each input and for the output; empty ones ask for nothing.
  struct Wish {
    std::vector<std::string> inputs;
    std::string output;
  };
  Wish Ask(const OpDef& op, const Call& call);

  // ---- random_graph_patterns.cc
  Tensor GrowLinear(Tensor x);
  Tensor GrowBias(Tensor x);
  Tensor GrowGated(Tensor x);
  Tensor GrowResidual(Tensor x);
  Tensor GrowEmbedding(Tensor x);
  Tensor GrowTied(Tensor x);
  Tensor GrowAttention(Tensor x);
  Tensor GrowCached(Tensor x);
  Tensor GrowGather(Tensor x);
  Tensor GrowScores(Tensor x);
  Tensor GrowTransposed(Tensor x);
  Tensor GrowPieces(Tensor x);
  Tensor GrowReshape(Tensor x);
  Tensor GrowReduced(Tensor x);
  Tensor GrowPad(Tensor x);
  Tensor GrowRegularizer(Tensor x);
  Tensor GrowBatchNorm(Tensor x);
  Tensor GrowTopK(Tensor x);
  Tensor GrowImages(Tensor x);
  Tensor GrowSampled(Tensor x);
  Tensor GrowCast(Tensor x);

  const uint64_t seed_;
  const DType dtype_;
  Graph* const graph_;
  RandomGraph* const out_;
  uint64_t state_ = 0;
  std::vector<Input> inputs_;
  int64_t batch_ = 1, ops_ = 0, done_ = 0;
  int variables_ = 0, sides_ = 0, products_ = 0;
  // FTRL makes 0 of what has no gradient but rounding, and what norms make of that is rounding:
  // such a graph is trained for a step.
  bool forgets_ = false;
  Tensor x_;
  std::vector<Tensor> past_;    // what a residual may join
  std::vector<Tensor> tables_;  // of embeddings
  std::vector<Tensor> extra_;   // scalars of the loss
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_RANDOM_GRAPH_BUILDER_H_
