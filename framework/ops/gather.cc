// Rows of each sample by their positions: what a head over a few places of a sequence reads, such
// as BERT's masked words, instead of the whole sequence.
#include <utility>

#include "framework/ops/cases.h"
#include "framework/ops/inference.h"
#include "framework/ops/op_defs.h"
#include "framework/ops/ops.h"
#include "framework/ops/reference.h"

namespace sluice {
namespace {

absl::Status CheckPositions(absl::string_view op, const char* rows, const TensorType& x,
                            const TensorType& positions) {
  RETURN_IF_ERROR(CheckIndices(op, "positions", positions));
  RETURN_IF_ERROR(CheckFloat(op, rows, x));
  if (x.shape.rank() == 3 && positions.shape.rank() == 2 && x.shape[0] == positions.shape[0]) {
    return absl::OkStatus();
  }
  return Mismatch(op, "expected ", rows,
                  " of [batch,time,width] and positions of [batch,count], got ", TypeText(x),
                  " and ", TypeText(positions));
}

// fn(place of a row of x's shard, place of one of y): where each position's row begins, of those
// that the shard holds. x [batch, time, width], y [batch, count, width].
template <typename F>
absl::Status ForEachPosition(const char* op, const Array& positions, const ShardArray& x, F&& fn) {
  RETURN_IF_ERROR(CheckInRange(op, "positions", positions, x.logical.shape[1]));
  const int64_t count = positions.shape[1], width = RowLength(x.array);
  for (int64_t n = 0; n < positions.shape[0] * count; ++n) {
    const int64_t row = static_cast<int64_t>(positions.values[n]);
    if (row < x.box[1].begin || row >= x.box[1].end) continue;
    const int64_t at = n / count * x.array.shape[1] + row - x.box[1].begin;
    for (int64_t e = 0; e < width; ++e) fn(at * width + e, n * width + e);
  }
  return absl::OkStatus();
}

}  // namespace

const OpDef& BatchGatherOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "batch_gather";
    op.inputs = {{"x"}, {"positions"}};
    op.outputs = {{"y"}};
    op.computes_in = ComputesIn::kEither;
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("batch_gather", call, 2));
      const TensorType &x = call.inputs[0], &positions = call.inputs[1];
      RETURN_IF_ERROR(CheckPositions("batch_gather", "x", x, positions));
      return Types{{x.dtype, {x.shape[0], positions.shape[1], x.shape[2]}}};
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse("bte,bm->bme", {{0}}); };
    op.gradient = [](const Node&, absl::Span<const Tensor> inputs, absl::Span<const Tensor>,
                     absl::Span<const Tensor> dy, std::vector<Gradient>* dx) {
      (*dx)[0] = Dense(ApplyOne(BatchGatherGradientOp(), RowsAttributes{inputs[0].shape()[1]},
                                {inputs[1], dy[0]}));
    };
    op.cost = [](const OpCall& call) {
      return Cost{0, BytesOf(call.inputs.subspan(1)) + 2 * BytesOf(call.outputs), 0,
                  RowSizes(call.outputs[0])};
    };
    op.reference = [](const ReferenceCall& call) {
      return ForEachPosition("batch_gather", call.inputs[1].array, call.inputs[0],
                             [&](int64_t from, int64_t to) {
                               call.outputs[0].array.values[to] = call.inputs[0].array.values[from];
                             });
    };
    op.cases = {{"", NoAttributes(), {F32({3, 5, 4}), I32({3, 2})}, 0, 4}};
    op.large_cases = {{"", NoAttributes(), {F32({7, 33, 67}), I32({7, 19})}, 0, 32}};
    op.timing = {
        RowsByLength(), [](At at) {
          return OpCase{"", NoAttributes(), {F32({at[0], 4, at[1]}), I32({at[0], 1})}, 0, 3};
        }};
    return op;
  }();
  return op;
}

// In f32 alone, as a position that several rows name gets their sum.
const OpDef& BatchGatherGradientOp() {
  static const OpDef op = [] {
    OpDef op;
    op.name = "batch_gather_gradient";
    op.inputs = {{"positions"}, {"dy"}};
    op.outputs = {{"dx"}};
    op.attributes = RowsAttributes();
    op.infer = [](const OpCall& call) -> absl::StatusOr<Types> {
      RETURN_IF_ERROR(CheckCount("batch_gather_gradient", call, 2));
      const TensorType &positions = call.inputs[0], &dy = call.inputs[1];
      RETURN_IF_ERROR(CheckPositions("batch_gather_gradient", "dy", dy, positions));
      RETURN_IF_ERROR(CheckType("batch_gather_gradient", "a row of dy for each position",
                                I32(Leading(dy.shape, 1)), positions));
      const int64_t rows = std::get<RowsAttributes>(call.attributes).rows;
      return Types{{dy.dtype, {dy.shape[0], rows, dy.shape[2]}}};
    };
    op.rule = [](const OpCall&) { return IndexRule::Parse("bm,bme->bte", {{1}}); };
    op.cost = [](const OpCall& call) { return ElementwiseCost(call, 1); };
    op.reference = [](const ReferenceCall& call) {
      return ForEachPosition("batch_gather_gradient", call.inputs[0].array, call.outputs[0],
                             [&](int64_t to, int64_t from) {
                               call.outputs[0].array.values[to] +=
                                   call.inputs[1].array.values[from];
                             });
    };
    op.cases = {{"", RowsAttributes{5}, {I32({3, 2}), F32({3, 2, 4})}, 0, 4}};
    op.large_cases = {{"", RowsAttributes{33}, {I32({7, 19}), F32({7, 19, 67})}, 0, 32}};
    op.timing = NotTimed(kMovesBytes);
    return op;
  }();
  return op;
}

Tensor BatchGather(Tensor x, Tensor positions) {
  return ApplyOne(BatchGatherOp(), NoAttributes(), {x, positions});
}

}  // namespace sluice
