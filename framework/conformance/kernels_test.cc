// Every CPU kernel does what its op's reference implementation says: on whole tensors and on the
// shards of every signature, even, uneven and empty; on larger random shapes; with the same bits
// for every number of threads.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/conformance/case_values.h"
#include "framework/conformance/kernel_run.h"
#include "framework/conformance/shard_run.h"
#include "framework/ops/all_ops.h"
#include "framework/ops/op_defs.h"
#include "gtest/gtest.h"

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

// One execution by reference and by kernel; empty if they agree.
std::string CheckShard(const OpDef& op, const OpCase& op_case, std::vector<ShardArray> inputs,
                       std::vector<ShardArray> outputs, int64_t coordinate, bool by_micro) {
  KernelCall call;
  call.op = op.name;
  call.attributes = PrintAttributes(op_case.attributes);
  call.seed = kCaseSeed;
  call.step = kCaseStep;
  call.by_micro = by_micro;
  call.micro = by_micro ? static_cast<int32_t>(coordinate) : 0;
  for (ShardArray& x : inputs) {
    x.array = Rounded(x.array, x.logical.dtype);
    call.inputs.push_back({x.logical, x.box, x.array});
  }
  for (const ShardArray& y : outputs) call.outputs.push_back({y.logical, y.box, {}});
  const absl::Status defined = op.reference(
      {op_case.attributes, absl::MakeSpan(inputs), absl::MakeSpan(outputs), kCaseSeed, kCaseStep});
  if (!defined.ok()) return std::string(defined.message());
  const absl::StatusOr<KernelRun> run = RunKernel(call);
  if (!run.ok()) return run.status().ToString();
  std::vector<TensorType> in_types, out_types;
  for (const ShardArray& x : inputs) in_types.push_back({x.logical.dtype, ShapeOf(x.box)});
  for (const ShardArray& y : outputs) out_types.push_back({y.logical.dtype, ShapeOf(y.box)});
  const int64_t bound = op.cost({op_case.attributes, in_types, out_types}).scratch;
  if (run->scratch > bound) {
    return absl::StrCat("scratch of ", run->scratch, " bytes, the op allows ", bound);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string difference = Compare(outputs[i].array, run->outputs[i], op_case.tolerance);
    if (!difference.empty()) return absl::StrCat("output ", i, ": ", difference);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string difference =
        Compare(inputs[i].array, run->updated[i], Updates(op, i) ? op_case.tolerance : 0);
    if (!difference.empty()) return absl::StrCat("input ", i, " afterwards: ", difference);
  }
  return "";
}

// All shards under one signature, up to the first that is wrong.
void CheckSignature(const OpDef& op, const OpCase& op_case, const CaseValues& values,
                    const Signature& signature, int64_t shards) {
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
      ASSERT_EQ(CheckShard(op, op_case, inputs, outputs, point, by_micro), "")
          << op.name << "/" << op_case.name << " " << ToString(signature) << " shard " << point
          << " of " << shards << (by_micro ? " by micro-batch" : "");
    }
  }
}

int64_t KernelsOf(const OpDef& op) {
  const auto entries = CpuKernels();
  return std::count_if(entries.begin(), entries.end(),
                       [&op](const KernelEntry& entry) { return entry.op == op.name; });
}

TEST(KernelsTest, TheListNamesEveryOp) {
  for (const OpDef* op : AllOps()) {
    EXPECT_EQ(KernelsOf(*op), 1) << op->name
                                 << ": kernels/cpu/all_kernels.cc is to have one line of it";
  }
  for (const KernelEntry& entry : CpuKernels()) {
    const bool instruction = entry.op == "copy" || entry.op == "fold" || entry.op == "accumulate";
    EXPECT_TRUE(instruction || FindOp(entry.op) != nullptr)
        << entry.op << " of kernels/cpu/all_kernels.cc is not listed in ops/all_ops.cc";
  }
}

TEST(KernelsTest, AgreeOnTheWholeAndOnParts) {
  int tried = 0;
  for (const OpDef* op : AllOps()) {
    if (KernelsOf(*op) == 0) continue;  // told above
    for (const OpCase& op_case : op->cases) {
      const auto values = RunWhole(*op, op_case, /*seed=*/11);
      ASSERT_TRUE(values.ok()) << values.status();
      for (int64_t shards : {1, 2, 3, 9}) {
        const auto signatures = SignaturesOf(
            *op, {op_case.attributes, values->input_types, values->output_types}, shards);
        ASSERT_TRUE(signatures.ok()) << signatures.status();
        for (const Signature& signature : *signatures) {
          ++tried;
          CheckSignature(*op, op_case, *values, signature, shards);
        }
      }
    }
  }
  std::cout << tried << " tried\n";
  EXPECT_GT(tried, 1400);
}

struct LargeCase {
  const OpDef* op;
  OpCase op_case;
};

TensorType F32(const Shape& shape) { return {DType::kF32, shape}; }
TensorType I32(const Shape& shape) { return {DType::kI32, shape}; }

// Large enough for vectors, blocks and several threads, and not round.
std::vector<LargeCase> LargeProducts() {
  return {
      {&MatMulOp(), {"", MatMulAttributes{false, false}, {F32({3, 65, 83}), F32({83, 71})}}},
      {&MatMulOp(), {"", MatMulAttributes{false, true}, {F32({190, 83}), F32({71, 83})}}},
      {&MatMulOp(), {"", MatMulAttributes{true, false}, {F32({83, 190}), F32({83, 71})}}},
      {&MatMulOp(), {"", MatMulAttributes{true, true}, {F32({4, 83, 70}), F32({4, 71, 83})}}},
      {&MatMulOp(), {"", MatMulAttributes{false, false}, {F32({3001, 83}), F32({83, 1})}}},
      {&MatMulOp(), {"", MatMulAttributes{false, false}, {F32({1, 183}), F32({183, 300})}}},
      {&MatMulOp(), {"", MatMulAttributes{false, true}, {F32({90, 1}), F32({130, 1})}}},
      {&MatMulInputGradientOp(),
       {"", MatMulAttributes{false, false}, {F32({2, 95, 71}), F32({83, 71})}}},
      {&MatMulWeightGradientOp(),
       {"", MatMulAttributes{false, false}, {F32({2, 150, 83}), F32({2, 150, 71})}}},
      {&MatMulWeightGradientOp(),
       {"", MatMulAttributes{false, true}, {F32({2, 150, 83}), F32({2, 150, 71})}}},
      {&MatMulRightGradientOp(),
       {"", MatMulAttributes{false, true}, {F32({2, 150, 83}), F32({2, 150, 71})}}},
  };
}

std::vector<LargeCase> LargeUpdates() {
  const TensorType wide = F32({301, 251}), table = F32({131, 67}), scalar = F32({});
  const AdamWAttributes adamw{0.9, 0.95, 1e-8, 0.1};
  const SgdAttributes sgd{0.9, 0.1};
  return {
      {&SgdOp(), {"", sgd, {wide, wide, scalar, scalar, wide}}},
      {&AdamWOp(), {"", adamw, {wide, wide, wide, wide, scalar, scalar, I32({})}, 1, 3}},
      {&AdamWSparseOp(),
       {"", adamw, {table, table, table, I32({99}), F32({99, 67}), scalar, scalar, I32({})}, 1, 3}},
      {&SgdSparseOp(), {"", sgd, {table, I32({99}), F32({99, 67}), scalar, scalar, table}, 0, 3}},
      {&SgdValueOp(), {"", sgd, {wide, wide, scalar, scalar, wide}}},
      {&AdamWValueOp(), {"", adamw, {wide, wide, wide, wide, scalar, scalar, I32({})}, 1, 3}},
      {&AdamWSparseValueOp(),
       {"", adamw, {table, table, table, I32({99}), F32({99, 67}), scalar, scalar, I32({})}, 1, 3}},
      {&SgdSparseValueOp(),
       {"", sgd, {table, I32({99}), F32({99, 67}), scalar, scalar, table}, 0, 3}},
      {&AssignOp(), {"", NoAttributes(), {wide, wide}}},
      {&AssignSparseOp(), {"", NoAttributes(), {table, I32({99}), F32({99, 67})}, 0, 3}},
  };
}

std::vector<LargeCase> LargeCases() {
  const TensorType wide = F32({301, 251}), row = F32({251}), column = F32({301});
  const TensorType table = F32({131, 67}), scalar = F32({});
  const Shape all = {0, 1}, outer = {0}, inner = {1};
  std::vector<LargeCase> cases = LargeProducts();
  const std::vector<LargeCase> others = {
      {&AddOp(), {"", NoAttributes(), {wide, row}}},
      {&AddOp(), {"", NoAttributes(), {wide, wide}}},
      {&SubtractOp(), {"", NoAttributes(), {row, wide}}},
      {&MultiplyOp(), {"", NoAttributes(), {F32({301, 1}), wide}}},
      {&DivideOp(), {"", NoAttributes(), {wide, scalar}, 0.5, 2}},
      {&AddNOp(), {"", NoAttributes(), {wide, wide, wide}}},
      {&ScaleOp(), {"", ScaleAttributes{0.3}, {wide}}},
      {&SqrtOp(), {"", NoAttributes(), {wide}, 0.1, 4}},
      {&TransposeOp(), {"", TransposeAttributes{{1, 0}}, {wide}}},
      {&TransposeGradientOp(), {"", TransposeAttributes{{1, 0}}, {wide}}},
      {&FillOp(), {"", FillAttributes{1.5, {301, 251}}, {}}},
      {&ReshapeOp(), {"", ShapeAttributes{{251, 301}}, {wide}}},
      {&SliceOp(), {"", SliceAttributes{1, 3, 250, 251}, {wide}}},
      {&PadOp(), {"", SliceAttributes{1, 3, 254, 260}, {wide}}},
      {&ConcatOp(), {"", ConcatAttributes{1}, {wide, F32({301, 70})}}},
      {&BroadcastOp(), {"", ShapeAttributes{{301, 251}}, {F32({301, 1})}}},
      {&CastOp(), {"", CastAttributes{DType::kBF16}, {wide}, -2, 2, 1e-2}},
      {&ReduceOp(), {"", ReduceAttributes{Reduction::kSum, false, outer}, {wide}}},
      {&ReduceOp(), {"", ReduceAttributes{Reduction::kSum, true, inner}, {wide}}},
      {&ReduceOp(), {"", ReduceAttributes{Reduction::kSum, true, all}, {wide}}},
      {&ReduceOp(), {"", ReduceAttributes{Reduction::kMax, false, outer}, {wide}}},
      {&ReduceOp(), {"", ReduceAttributes{Reduction::kMin, false, inner}, {wide}}},
      {&ReduceOp(), {"", ReduceAttributes{Reduction::kMax, false, all}, {wide}}},
      {&SumSquaresOp(), {"", NoAttributes(), {wide}}},
      {&GeluOp(), {"", NoAttributes(), {wide}, -12, 12}},
      {&GeluGradientOp(), {"", NoAttributes(), {wide, wide}, -12, 12}},
      {&SiluOp(), {"", NoAttributes(), {wide}, -12, 12}},
      {&SiluGradientOp(), {"", NoAttributes(), {wide, wide}, -12, 12}},
      {&ReluOp(), {"", NoAttributes(), {wide}}},
      {&ReluGradientOp(), {"", NoAttributes(), {wide, wide}}},
      {&SoftmaxOp(), {"", NoAttributes(), {wide}, -20, 20}},
      {&SoftmaxGradientOp(), {"", NoAttributes(), {wide, wide}}},
      {&DropoutOp(), {"", DropoutAttributes{0.1, 77}, {wide}}},
      {&LayerNormOp(), {"", LayerNormAttributes(), {wide, row, row}}},
      {&LayerNormGradientOp(), {"", LayerNormAttributes(), {wide, wide, row, column, column}}},
      {&LayerNormParameterGradientOp(), {"", NoAttributes(), {wide, wide, column, column}}},
      {&EmbeddingOp(), {"", NoAttributes(), {table, I32({9, 101})}, 0, 130}},
      {&EmbeddingGradientOp(),
       {"", RowsAttributes{131}, {I32({9, 101}), F32({9, 101, 67})}, 0, 130}},
      {&AddSparseOp(), {"", NoAttributes(), {table, I32({909}), F32({909, 67})}, 0, 130}},
      {&SumSquaresSparseOp(), {"", NoAttributes(), {I32({909}), F32({909, 67})}, 0, 130}},
      {&CrossEntropyMaxOp(), {"", NoAttributes(), {wide}}},
      {&CrossEntropySumExpOp(), {"", NoAttributes(), {wide, column}, -3, 3}},
      {&CrossEntropyPickOp(), {"", NoAttributes(), {wide, I32({301})}, 0, 250}},
      {&CrossEntropyCombineOp(), {"", NoAttributes(), {wide, wide, wide}, 0.5, 90}},
      {&CrossEntropyGradientOp(),
       {"", NoAttributes(), {wide, column, column, I32({301}), column}, 1, 4}},
      {&ClipFactorOp(), {"", ClipAttributes{0.5}, {scalar}, 0.1, 4}},
  };
  cases.insert(cases.end(), others.begin(), others.end());
  const std::vector<LargeCase> updates = LargeUpdates();
  cases.insert(cases.end(), updates.begin(), updates.end());
  return cases;
}

// The smallest attention is about the size of a tile; others have a few, and a rest.
std::vector<LargeCase> AttentionCases() {
  std::vector<LargeCase> cases;
  for (const Shape& shape : {Shape{2, 64, 2, 32}, Shape{1, 128, 3, 64}, Shape{2, 77, 1, 24},
                             Shape{1, 33, 2, 40}, Shape{3, 1, 2, 16}, Shape{1, 150, 1, 80}}) {
    const TensorType q = F32(shape), rows = F32({shape[0], shape[1], shape[2]});
    const AttentionAttributes scale{1 / std::sqrt(static_cast<double>(shape[3]))};
    cases.push_back({&AttentionOp(), {"", scale, {q, q, q}, -3, 3}});
    cases.push_back({&AttentionGradientOp(), {"", scale, {q, q, q, q, rows, q}, -1, 1}});
  }
  return cases;
}

void CheckLarge(const LargeCase& large) {
  const OpDef& op = *large.op;
  auto values = RunWhole(op, large.op_case, /*seed=*/7);
  ASSERT_TRUE(values.ok()) << values.status();
  std::string shapes;
  for (const TensorType& type : values->input_types) shapes += type.shape.ToString();
  std::vector<HostTensor> first;
  for (int threads : {1, 2, 3}) {
    KernelCall call;
    call.op = op.name;
    call.attributes = PrintAttributes(large.op_case.attributes);
    call.threads = threads;
    call.seed = kCaseSeed;
    call.step = kCaseStep;
    for (size_t i = 0; i < values->inputs.size(); ++i) {
      const TensorType& type = values->input_types[i];
      call.inputs.push_back({type, WholeBox(type.shape), values->inputs[i]});
    }
    for (const TensorType& type : values->output_types) {
      call.outputs.push_back({type, WholeBox(type.shape), {}});
    }
    const absl::StatusOr<KernelRun> run = RunKernel(call);
    ASSERT_TRUE(run.ok()) << op.name << shapes << ": " << run.status();
    const OpCall types = {large.op_case.attributes, values->input_types, values->output_types};
    EXPECT_LE(run->scratch, op.cost(types).scratch)
        << op.name << shapes << " with " << threads << " threads";
    for (size_t i = 0; i < run->outputs.size(); ++i) {
      EXPECT_EQ(Compare(values->outputs[i], run->outputs[i], large.op_case.tolerance), "")
          << op.name << shapes << " output " << i;
    }
    for (size_t i = 0; i < run->updated.size(); ++i) {
      if (!Updates(op, i)) continue;
      EXPECT_EQ(Compare(values->updated[i], run->updated[i], large.op_case.tolerance), "")
          << op.name << shapes << " updated input " << i;
    }
    if (threads == 1) first = run->bytes;
    for (size_t i = 0; i < first.size(); ++i) {
      EXPECT_EQ(first[i].bytes, run->bytes[i].bytes)
          << op.name << shapes << ": operand " << i << " has other bits with " << threads
          << " threads";
    }
  }
}

TEST(KernelsTest, LargeShapesAgreeAndBitsDoNotDependOnThreads) {
  std::set<const OpDef*> checked = {&AttentionOp(), &AttentionGradientOp()};  // below
  for (const LargeCase& large : LargeCases()) {
    CheckLarge(large);
    checked.insert(large.op);
  }
  for (const OpDef* op : AllOps()) {
    EXPECT_EQ(checked.count(op), 1u)
        << op->name << " has no line in LargeCases() of conformance/kernels_test.cc";
  }
}

TEST(KernelsTest, AttentionAgrees) {
  for (const LargeCase& large : AttentionCases()) CheckLarge(large);
}

KernelCall CallOf(const std::string& op, const std::vector<TensorType>& inputs,
                  const std::vector<Array>& values, const std::vector<TensorType>& outputs) {
  KernelCall call;
  call.op = op;
  for (size_t i = 0; i < inputs.size(); ++i) {
    call.inputs.push_back({inputs[i], WholeBox(inputs[i].shape), values[i]});
  }
  for (const TensorType& type : outputs) call.outputs.push_back({type, WholeBox(type.shape), {}});
  return call;
}

TEST(KernelsTest, IdsOutOfRangeAreNamed) {
  Array ids(Shape{3});
  ids.values = {1, 7, 2};
  const Array table(Shape{7, 2});
  const auto run =
      RunKernel(CallOf("embedding", {F32({7, 2}), I32({3})}, {table, ids}, {F32({3, 2})}));
  EXPECT_EQ(run.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(run.status().message(), "embedding: expected ids in [0, 7), got 7 in row 1");
  ids.values[1] = -1;
  const auto pick =
      RunKernel(CallOf("ce_pick", {F32({3, 7}), I32({3})}, {Array(Shape{3, 7}), ids}, {F32({3})}));
  EXPECT_EQ(pick.status().message(), "ce_pick: expected labels in [0, 7), got -1 in row 1");
}

TEST(KernelsTest, UnknownKernelsAreNamed) {
  const auto unknown = RunKernel(CallOf("conv", {F32({2})}, {Array(Shape{2})}, {F32({2})}));
  EXPECT_EQ(unknown.status().message(), "no CPU kernel for conv(f32[2]) -> f32[2]");
  const TensorType half = {DType::kBF16, {2}};
  const auto other = RunKernel(CallOf("gelu", {half}, {Array(Shape{2})}, {half}));
  EXPECT_EQ(other.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(other.status().message(), "no CPU kernel for gelu(bf16[2]) -> bf16[2]");
}

// The box and accumulate instructions, which are no ops.

FoldRegion RegionOf(const Shape& extent, std::vector<int> sources, std::vector<int> fold,
                    std::vector<int64_t> offsets, std::vector<Shape> strides, int64_t offset,
                    const Shape& out) {
  FoldRegion region;
  region.extent = extent;
  region.sources = std::move(sources);
  region.fold = std::move(fold);
  region.source_offsets = std::move(offsets);
  region.source_strides = std::move(strides);
  region.offset = offset;
  region.strides = out;
  return region;
}

Array Counting(const Shape& shape, double start) {
  Array array(shape);
  for (size_t i = 0; i < array.values.size(); ++i) array.values[i] = start + static_cast<double>(i);
  return array;
}

TEST(KernelsTest, FoldFoldsInTheGivenOrder) {
  for (DType dtype : {DType::kF32, DType::kF64, DType::kI32, DType::kBF16}) {
    const TensorType in = {dtype, {3, 4}}, out = {dtype, {2, 700}};
    // Into columns [1, 3) of a [2, 700]: ((a + b) + c) of rows 1, 2, columns 2, 3.
    KernelCall call =
        CallOf("fold", {in, in, in},
               {Counting({3, 4}, 0), Counting({3, 4}, 10), Counting({3, 4}, 30)}, {out});
    call.reduction = Reduction::kSum;
    call.fill_identity = true;
    call.regions = {RegionOf({2, 2}, {0, 1, 2}, {0, 1, -1, 2, -1}, {6, 6, 6},
                             {{4, 1}, {4, 1}, {4, 1}}, 1, {700, 1})};
    const auto run = RunKernel(call);
    ASSERT_TRUE(run.ok()) << run.status();
    const std::vector<double>& y = run->outputs[0].values;
    EXPECT_EQ(y[1], 3 * 6 + 40);
    EXPECT_EQ(y[2], 3 * 7 + 40);
    EXPECT_EQ(y[701], 3 * 10 + 40);
    EXPECT_EQ(y[0], 0);
    EXPECT_EQ(std::signbit(y[0]), dtype != DType::kI32);
  }
}

TEST(KernelsTest, FoldOfTwoKeepsTheOrderOfLongFolds) {
  // f32 sums that depend on order: (1e8 + 1) - 1e8 is 0, 1 + (1e8 - 1e8) is 1.
  const TensorType one = F32({1000});
  const Array big(Shape{1000}, 1e8), small(Shape{1000}, 1), minus(Shape{1000}, -1e8);
  for (bool left : {true, false}) {
    KernelCall call = CallOf("fold", {one, one, one}, {big, small, minus}, {one});
    call.reduction = Reduction::kSum;
    call.regions = {
        RegionOf({1000}, {0, 1, 2},
                 left ? std::vector<int>{0, 1, -1, 2, -1} : std::vector<int>{1, 0, 2, -1, -1},
                 {0, 0, 0}, {{1}, {1}, {1}}, 0, {1})};
    const auto run = RunKernel(call);
    ASSERT_TRUE(run.ok()) << run.status();
    for (double y : run->outputs[0].values) ASSERT_EQ(y, left ? 0 : 1);
  }
}

TEST(KernelsTest, FoldMaxFillsWithMinusInfinityAndKeepsNan) {
  Array a = Counting({4}, 0), b = Counting({4}, 0);
  b.values = {-1, std::nan(""), 9, 1};
  KernelCall call = CallOf("fold", {F32({4}), F32({4})}, {a, b}, {F32({6})});
  call.reduction = Reduction::kMax;
  call.fill_identity = true;
  call.regions = {RegionOf({4}, {0, 1}, {0, 1, -1}, {0, 0}, {{1}, {1}}, 1, {1})};
  const auto run = RunKernel(call);
  ASSERT_TRUE(run.ok()) << run.status();
  const std::vector<double>& y = run->outputs[0].values;
  EXPECT_EQ(y[0], -INFINITY);
  EXPECT_EQ(y[1], 0);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], 9);
  EXPECT_EQ(y[5], -INFINITY);
}

TEST(KernelsTest, FoldRegionsOfAMicroBatchApplyThenOnly) {
  KernelCall call = CallOf("fold", {F32({4})}, {Counting({4}, 5)}, {F32({2})});
  for (int m = 0; m < 2; ++m) {
    call.regions.push_back(RegionOf({2}, {0}, {0}, {2 * m}, {{1}}, 0, {1}));
    call.regions.back().micro = m + 1;
  }
  for (int m = 0; m < 2; ++m) {
    call.micro = m;
    const auto run = RunKernel(call);
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(run->outputs[0].values[0], 5 + 2 * m);
  }
}

TEST(KernelsTest, FoldRefusesAFoldThatIsNoExpression) {
  KernelCall call = CallOf("fold", {F32({4})}, {Counting({4}, 5)}, {F32({4})});
  call.regions = {RegionOf({4}, {0}, {0, 0}, {0}, {{1}}, 0, {1})};
  EXPECT_EQ(RunKernel(call).status().code(), absl::StatusCode::kInternal);
}

TEST(KernelsTest, AccumulateSetsFirstAndAddsLater) {
  KernelSpec spec;
  spec.op = "accumulate";
  spec.inputs = spec.outputs = {Shard::Whole(DType::kF32, {3})};
  spec.reduction = Reduction::kSum;
  const auto kernel = PrepareCpuKernel(spec);
  ASSERT_TRUE(kernel.ok());
  float x[3] = {1, 2, 3}, y[3] = {NAN, NAN, NAN};
  std::byte* const operands[] = {reinterpret_cast<std::byte*>(x), reinterpret_cast<std::byte*>(y)};
  KernelContext firing;
  for (firing.micro = 0; firing.micro < 3; ++firing.micro) {
    ASSERT_TRUE((*kernel)->Launch(firing, operands, nullptr).ok());
  }
  EXPECT_EQ(y[0], 3);
  EXPECT_EQ(y[2], 9);
}

}  // namespace
}  // namespace sluice
