#include "framework/conformance/kernel_checker.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/compiler/fuse.h"
#include "framework/conformance/shard_run.h"
#include "framework/ops/all_ops.h"
#include "framework/testing/resized_case.h"

namespace sluice {
namespace {

// As a kernel would read it.
Array Rounded(const Array& array, DType dtype) { return ToArray(FromArray(array, dtype)); }

std::string Compare(const Array& expected, const Array& got, double tolerance) {
  if (expected.shape != got.shape) return "shape";
  double largest = 1e-3;
  for (double value : expected.values) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  for (size_t i = 0; i < expected.values.size(); ++i) {
    const double e = expected.values[i], g = got.values[i];
    if (e == g || (std::isnan(e) && std::isnan(g))) continue;
    if (!(std::abs(e - g) <= tolerance * largest)) {
      return absl::StrCat("element ", i, ": expected ", e, ", got ", g);
    }
  }
  return "";
}

bool HasIds(const OpCase& op_case) {
  return std::any_of(op_case.inputs.begin(), op_case.inputs.end(),
                     [](const TensorType& type) { return !IsFloat(type.dtype); });
}

KernelCall CallOf(const OpDef& op, const OpCase& op_case) {
  KernelCall call;
  call.op = op.name;
  call.attributes = PrintAttributes(op_case.attributes);
  call.seed = kCaseSeed;
  call.step = kCaseStep;
  return call;
}

void AddInput(const OpDef& op, const TensorType& logical, const Box& box, Array array,
              KernelCall* call) {
  call->updates.push_back(Updates(op, call->inputs.size()));
  call->inputs.push_back({logical, box, std::move(array)});
}

// What the run is to say of outputs and of inputs afterwards.
std::string CompareAll(const OpDef& op, const std::vector<Array>& outputs,
                       const std::vector<Array>& updated, double tolerance, const KernelRun& run) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string difference = Compare(outputs[i], run.outputs[i], tolerance);
    if (!difference.empty()) return absl::StrCat("output ", i, ": ", difference);
  }
  for (size_t i = 0; i < updated.size(); ++i) {
    const std::string difference =
        Compare(updated[i], run.updated[i], Updates(op, i) ? tolerance : 0);
    if (!difference.empty()) return absl::StrCat("input ", i, " afterwards: ", difference);
  }
  return "";
}

std::string CheckScratch(int64_t bound, const KernelRun& run) {
  if (run.scratch <= bound) return "";
  return absl::StrCat("scratch of ", run.scratch, " bytes, the op allows ", bound);
}

std::string ShapesOf(const std::vector<TensorType>& types) {
  std::string shapes;
  for (const TensorType& type : types) shapes += type.shape.ToString();
  return shapes;
}

}  // namespace

std::string KernelChecker::CheckShard(const OpDef& op, const OpCase& op_case,
                                      std::vector<ShardArray> inputs,
                                      std::vector<ShardArray> outputs, int64_t coordinate,
                                      bool by_micro) const {
  KernelCall call = CallOf(op, op_case);
  call.by_micro = by_micro;
  call.micro = by_micro ? static_cast<int32_t>(coordinate) : 0;
  for (ShardArray& x : inputs) {
    x.array = Rounded(x.array, x.logical.dtype);
    AddInput(op, x.logical, x.box, x.array, &call);
  }
  for (const ShardArray& y : outputs) call.outputs.push_back({y.logical, y.box, {}});
  const absl::Status defined = op.reference(
      {op_case.attributes, absl::MakeSpan(inputs), absl::MakeSpan(outputs), kCaseSeed, kCaseStep});
  if (!defined.ok()) return std::string(defined.message());
  std::vector<TensorType> in_types, out_types;
  std::vector<Array> in, out;
  for (const ShardArray& x : inputs) {
    in_types.push_back({x.logical.dtype, ShapeOf(x.box)});
    in.push_back(x.array);
  }
  for (const ShardArray& y : outputs) {
    out_types.push_back({y.logical.dtype, ShapeOf(y.box)});
    out.push_back(y.array);
  }
  const OpCall types = {op_case.attributes, in_types, out_types};
  call.most_scratch = op.cost(types).ScratchOn(kind_);
  const absl::StatusOr<KernelRun> run = run_(call);
  if (!run.ok()) return run.status().ToString();
  if (const std::string also = also_(call, *run); !also.empty()) return also;
  if (const std::string other = CheckInPlace(op, call, *run); !other.empty()) return other;
  const std::string scratch = CheckScratch(call.most_scratch, *run);
  return scratch.empty() ? CompareAll(op, out, in, op_case.tolerance, *run) : scratch;
}

std::string KernelChecker::CheckInPlace(const OpDef& op, const KernelCall& call,
                                        const KernelRun& run) const {
  for (size_t output = 0; output < call.outputs.size(); ++output) {
    for (size_t input = 0; input < call.inputs.size(); ++input) {
      const KernelOperand &x = call.inputs[input], &y = call.outputs[output];
      if (!IsInPlace(op, input) || !(x.logical == y.logical) || x.box != y.box) continue;
      KernelCall in_place = call;
      in_place.takes.assign(call.outputs.size(), 0);
      in_place.takes[output] = static_cast<int>(input) + 1;
      const absl::StatusOr<KernelRun> again = run_(in_place);
      if (!again.ok()) return again.status().ToString();
      for (size_t i = 0; i < call.outputs.size(); ++i) {
        if (again->bytes[i].bytes == run.bytes[i].bytes) continue;
        return absl::StrCat("output ", i, ": other bits where output ", output,
                            " takes the bytes of input ", input);
      }
    }
  }
  return "";
}

std::string KernelChecker::CheckSignature(const OpDef& op, const OpCase& op_case,
                                          const CaseValues& values, const Signature& signature,
                                          int64_t shards) const {
  std::vector<std::vector<ShardArray>> scattered;
  for (size_t i = 0; i < values.inputs.size(); ++i) {
    scattered.push_back(
        Scatter(values.input_types[i], values.inputs[i], {signature.inputs[i]}, {shards}, 100 + i));
  }
  for (int64_t point = 0; point < shards; ++point) {
    std::vector<ShardArray> inputs, outputs;
    for (auto& tensor : scattered) inputs.push_back(tensor[point]);
    for (size_t i = 0; i < values.output_types.size(); ++i) {
      const Box box =
          BoxAt(values.output_types[i].shape, {signature.outputs[i]}, {shards}, {point});
      outputs.push_back({values.output_types[i], box, Array(ShapeOf(box))});
    }
    for (bool by_micro : {false, true}) {
      const std::string wrong = CheckShard(op, op_case, inputs, outputs, point, by_micro);
      if (wrong.empty()) continue;
      return absl::StrCat(op.name, "/", op_case.name, " ", ToString(signature), " shard ", point,
                          " of ", shards, by_micro ? " by micro-batch" : "", ": ", wrong);
    }
  }
  return "";
}

std::string KernelChecker::CheckCase(const OpDef& op, const OpCase& op_case,
                                     absl::Span<const int64_t> shard_counts, int* tried) const {
  const auto values = RunWhole(op, op_case, /*seed=*/11);
  if (!values.ok()) return values.status().ToString();
  for (const int64_t shards : shard_counts) {
    const auto signatures =
        SignaturesOf(op, {op_case.attributes, values->input_types, values->output_types}, shards);
    if (!signatures.ok()) return signatures.status().ToString();
    for (const Signature& signature : *signatures) {
      ++*tried;
      const std::string wrong = CheckSignature(op, op_case, *values, signature, shards);
      if (!wrong.empty()) return wrong;
    }
  }
  return "";
}

std::string KernelChecker::CheckWhole(const OpDef& op, const OpCase& op_case,
                                      int most_threads) const {
  const auto values = RunWhole(op, op_case, /*seed=*/7);
  if (!values.ok()) return values.status().ToString();
  KernelCall call = CallOf(op, op_case);
  std::vector<Array> updated;
  for (size_t i = 0; i < values->inputs.size(); ++i) {
    const TensorType& type = values->input_types[i];
    AddInput(op, type, WholeBox(type.shape), values->inputs[i], &call);
    updated.push_back(Updates(op, i) ? values->updated[i] : Rounded(values->inputs[i], type.dtype));
  }
  for (const TensorType& type : values->output_types) {
    call.outputs.push_back({type, WholeBox(type.shape), {}});
  }
  const OpCall types = {op_case.attributes, values->input_types, values->output_types};
  call.most_scratch = op.cost(types).ScratchOn(kind_);
  std::vector<HostTensor> first;
  const auto check = [&]() -> std::string {
    const absl::StatusOr<KernelRun> run = run_(call);
    if (!run.ok()) return run.status().ToString();
    const std::string scratch = CheckScratch(call.most_scratch, *run);
    if (!scratch.empty()) return scratch;
    const std::string differs = CompareAll(op, values->outputs, updated, op_case.tolerance, *run);
    if (!differs.empty()) return differs;
    if (call.threads == 1) {
      first = run->bytes;
      const std::string also = also_(call, *run);
      return also.empty() ? CheckInPlace(op, call, *run) : also;
    }
    for (size_t i = 0; i < first.size(); ++i) {
      if (first[i].bytes != run->bytes[i].bytes) return absl::StrCat("operand ", i, ": other bits");
    }
    return "";
  };
  for (call.threads = 1; call.threads <= most_threads; ++call.threads) {
    const std::string wrong = check();
    if (wrong.empty()) continue;
    return absl::StrCat(op.name, "/", op_case.name, " of ", ShapesOf(values->input_types), " with ",
                        call.threads, " threads: ", wrong);
  }
  return "";
}

// Which NaN of several comes out differs between kinds of devices, and so may its sign.
std::string KernelChecker::CheckNan(const OpDef& op, const OpCase& op_case) const {
  auto values = RunWhole(op, op_case, /*seed=*/13);
  if (!values.ok()) return values.status().ToString();
  const TensorType x = values->input_types[0];
  values->inputs[0].values.back() = std::nan("");
  std::vector<ShardArray> inputs = {{x, WholeBox(x.shape), values->inputs[0]}};
  std::vector<ShardArray> outputs;
  KernelCall call = CallOf(op, op_case);
  AddInput(op, x, WholeBox(x.shape), values->inputs[0], &call);
  for (const TensorType& y : values->output_types) {
    outputs.push_back({y, WholeBox(y.shape), Array(y.shape)});
    call.outputs.push_back({y, WholeBox(y.shape), {}});
  }
  const absl::Status defined = op.reference(
      {op_case.attributes, absl::MakeSpan(inputs), absl::MakeSpan(outputs), kCaseSeed, kCaseStep});
  if (!defined.ok()) return defined.ToString();
  const absl::StatusOr<KernelRun> run = run_(call);
  if (!run.ok()) return absl::StrCat(op.name, ": ", run.status().ToString());
  const Array& expected = outputs[0].array;
  for (size_t i = 0; i < expected.values.size(); ++i) {
    if (std::isnan(run->outputs[0].values[i]) == std::isnan(expected.values[i])) continue;
    return absl::StrCat(op.name, "/", op_case.name, " element ", i, ": expected ",
                        expected.values[i], ", got ", run->outputs[0].values[i]);
  }
  return "";
}

OpCase InBf16(const OpDef& op, const OpCase& f32) {
  OpCase low = f32;
  for (size_t i = 0; i < low.inputs.size(); ++i) {
    if (low.inputs[i].dtype != DType::kF32 || InputPort(op, i).statistic) continue;
    low.inputs[i].dtype = DType::kBF16;
  }
  // Of attention weights, and slopes of scores, are rounded to be multiplied, beside the result.
  const auto is_in = [&op](absl::Span<const OpDef* const> ops) {
    return std::count(ops.begin(), ops.end(), &op) > 0;
  };
  const bool twice =
      is_in(FusedOps()) || is_in(CardOps()) || absl::StrContains(op.name, "attention");
  // cuBLASLt rounds a sum, and the sum with the bias, before its gelu reads it (13.1, H200).
  const bool thrice = absl::StrContains(op.name, "bias_gelu");
  // Terms of both signs, each rounded, may leave a small sum.
  const bool sums = absl::StrContains(op.name, "gradient_sum");
  low.tolerance = std::max(f32.tolerance, sums     ? 0x1p-5
                                          : thrice ? 0x1p-6
                                          : twice  ? 0x1p-7
                                                   : 0x1p-8);
  return low;
}

std::vector<OpCase> RowCases(const OpDef& op, absl::Span<const int64_t> lengths) {
  std::vector<OpCase> cases;
  for (const OpCase& op_case : op.cases) {
    const auto factors = FactorsOf(op, op_case);
    if (!factors.ok() || factors->inputs.empty() || factors->inputs[0].empty()) continue;
    if (factors->inputs[0].back() == kOneFactor) continue;
    for (const int64_t length : lengths) {
      // Labels look into rows of the case's own length.
      if (HasIds(op_case) && length <= std::ceil(op_case.high)) continue;
      OpCase resized = Resized(op_case, *factors, {{factors->inputs[0].back(), length}});
      if (!op.infer({resized.attributes, resized.inputs, {}}).ok()) continue;
      cases.push_back(std::move(resized));
    }
  }
  return cases;
}

std::vector<OpCase> NanCases(const OpDef& op) {
  std::vector<OpCase> cases;
  for (const OpCase& op_case : op.cases) {
    // An integer has no NaN, nor would a cast to one.
    if (op_case.inputs.size() != 1 || HasIds(op_case)) continue;
    const auto types = op.infer({op_case.attributes, op_case.inputs, {}});
    if (types.ok() && IsFloat((*types)[0].dtype)) cases.push_back(op_case);
  }
  return cases;
}

}  // namespace sluice
