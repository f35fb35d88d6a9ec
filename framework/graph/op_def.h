// OpDef is all that is known of an op, in one value: ports, shapes, index rule, gradient, cost,
// reference implementation (plain loops in f64: the specification), test cases, and the calls that
// a calibration times. The catalogue is in ops/.
#ifndef SLUICE_FRAMEWORK_GRAPH_OP_DEF_H_
#define SLUICE_FRAMEWORK_GRAPH_OP_DEF_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/attributes/attributes.h"
#include "framework/base/device_kind.h"
#include "framework/sbp/index_rule.h"
#include "framework/tensor/array.h"

namespace sluice {

class Tensor;
struct Node;

struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

struct Port {
  std::string name;
  bool updates = false;   // an input that the op changes in place; only variables go there
  bool variadic = false;  // any number of tensors; only the last input
  // A scalar, a row's or a channel's mean, sum, maximum, factor, or a sum over all samples: f32
  // where the op computes in a smaller type.
  bool statistic = false;
  // An output may lie where this input lies, as OpDef::in_place says of all of them.
  bool in_place = false;
};

// An op applied to tensors, by their types. `outputs` is empty during inference.
struct OpCall {
  const Attributes& attributes;
  absl::Span<const TensorType> inputs;
  absl::Span<const TensorType> outputs;
};

struct Cost {
  int64_t flops = 0;
  int64_t bytes = 0;    // read and written once each, at least
  int64_t scratch = 0;  // bound on what a kernel may ask for
  // What a kernel's time follows, the axes of its KernelTimes: rows, columns and depth of a
  // product, rows and their length where work goes by rows, bytes elsewhere. Empty: flops and bytes
  // alone.
  Shape sizes = {};
  // `scratch` of a kernel of a card, where it is another: a CPU's keeps some for each of many
  // threads, a card's library wants workspace. It is planned (plan.proto Instruction.scratch), so
  // each byte too many is memory that nobody has.
  std::optional<int64_t> cuda_scratch = {};

  int64_t ScratchOn(DeviceKind kind) const {
    return kind == DeviceKind::kCuda ? cuda_scratch.value_or(scratch) : scratch;
  }
};

// One operand of a reference implementation: the values of a box of the logical tensor.
struct ShardArray {
  TensorType logical;
  Box box;
  Array array;  // of shape ShapeOf(box)
};

// One execution of a reference implementation on shards. Factors that two operands share have the
// same range in both. Outputs come sized, filled with zeros; inputs of `updates` ports may be
// written.
struct ReferenceCall {
  const Attributes& attributes;
  absl::Span<ShardArray> inputs;
  absl::Span<ShardArray> outputs;
  uint64_t seed = 0;
  int64_t step = 0;
};

// What an op's gradient gives for one input: nothing, a dense tensor, or rows of a table.
struct Gradient {
  enum Kind : uint8_t { kNone, kDense, kSparse } kind = kNone;
  std::vector<Tensor> tensors;  // kDense: {gradient}; kSparse: {ids, values}
  // Of kSparse: the table is [groups, rows, width], and ids [groups, n] are of a group each.
  bool grouped = false;
};

// For conformance tests. Values are drawn from [low, high]; i32 inputs are integers there.
struct OpCase {
  std::string name;
  Attributes attributes;
  std::vector<TensorType> inputs;
  double low = -2, high = 2;
  double tolerance = 1e-5;     // of kernels in f32, relative to the largest output
  bool check_gradient = true;  // against finite differences
};

// At which sizes a calibration times an op's kernel: one call for each point of the axes. An op
// without axes is priced at flat rates, and `flat_because` says why that will do.
struct OpTiming {
  std::vector<std::vector<int64_t>> axes = {};
  OpCase (*call)(absl::Span<const int64_t> at) = nullptr;
  std::string flat_because = "";
};

// What an op computes in where a program is of mixed precision (passes/mixed_precision.h).
enum class ComputesIn : uint8_t {
  kF32,     // f32, whatever is around it
  kEither,  // f32 or bf16, as its inputs come; all but statistics alike. What it adds up is f32
  kLow,     // as kEither, and it is worth casting its inputs to bf16
};

struct OpDef {
  std::string name;
  std::vector<Port> inputs, outputs;
  Attributes attributes;  // the alternative this op takes, with defaults
  // Types of the outputs. Errors say what was expected and got.
  absl::StatusOr<std::vector<TensorType>> (*infer)(const OpCall&) = nullptr;
  // Exactly one of the two. `signatures` gets the shapes that outer axes leave to one shard, and
  // must give cuts that are the same on both sides.
  absl::StatusOr<IndexRule> (*rule)(const OpCall&) = nullptr;
  absl::StatusOr<std::vector<Signature>> (*signatures)(const OpCall&, int64_t shards) = nullptr;
  // Adds backward nodes; dx has one entry per input. Null: no gradient flows.
  void (*gradient)(const Node& node, absl::Span<const Tensor> inputs,
                   absl::Span<const Tensor> outputs, absl::Span<const Tensor> dy,
                   std::vector<Gradient>* dx) = nullptr;
  Cost (*cost)(const OpCall&) = nullptr;  // of the given (local) types
  absl::Status (*reference)(const ReferenceCall&) = nullptr;
  bool view = false;    // output is the input's bytes (reshape): no instruction
  bool random = false;  // may read seed and step; its attributes may have a key (RandomKeyOf)
  bool sum = false;     // adds up its inputs
  // An output may lie where an input of its type and shard lies: whoever writes an element has read
  // that element of every input before, and nobody reads it later.
  bool in_place = false;
  bool joins = false;  // one launch may be of many calls of it (compiler/join_calls.h)
  ComputesIn computes_in = ComputesIn::kF32;
  std::vector<OpCase> cases;  // small, uneven where it matters
  // Large enough for vectors, blocks and several threads, and not round. For kernels alone.
  std::vector<OpCase> large_cases;
  OpTiming timing;
};

// The port of the i-th input; the last port where that is variadic.
const Port& InputPort(const OpDef& op, size_t input);
// Whether an output may lie where the input lies.
bool IsInPlace(const OpDef& op, size_t input);
// "f32[2,3]"
std::string ToString(const TensorType& type);

// The signatures of a call along one axis of `shards` shards, from the rule or the function.
absl::StatusOr<std::vector<Signature>> SignaturesOf(const OpDef& op, const OpCall& call,
                                                    int64_t shards);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_GRAPH_OP_DEF_H_
