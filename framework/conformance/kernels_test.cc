// Every CPU kernel does what its op's reference implementation says: on whole tensors and on the
// shards of every signature, even, uneven and empty; on large shapes; with the same bits for every
// number of threads and at every level of the instruction set.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/compiler/fuse.h"
#include "framework/conformance/case_values.h"
#include "framework/conformance/kernel_run.h"
#include "framework/conformance/shard_run.h"
#include "framework/kernels/cpu/vector.h"
#include "framework/ops/all_ops.h"
#include "framework/ops/op_defs.h"
#include "framework/testing/resized_case.h"
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

std::string ShapesOf(const KernelCall& call) {
  std::string shapes;
  for (const KernelOperand& operand : call.inputs) shapes += ShapeOf(operand.box).ToString();
  return shapes;
}

// A kernel on AVX2 gives the bits of `run`, which had the best that the processor has: AVX-512, or
// else the same again.
void ExpectBitsOfEveryLevel(const KernelCall& call, const KernelRun& run) {
  const cpu::ScopedIsa lower(cpu::Isa::kV3);
  const absl::StatusOr<KernelRun> again = RunKernel(call);
  ASSERT_TRUE(again.ok()) << call.op << ": " << again.status();
  for (size_t i = 0; i < run.bytes.size(); ++i) {
    EXPECT_TRUE(run.bytes[i].bytes == again->bytes[i].bytes)
        << call.op << " of " << ShapesOf(call) << ": operand " << i
        << " has other bits with AVX2 than with AVX-512";
  }
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
  ExpectBitsOfEveryLevel(call, *run);
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
                                 << ": kernels/cpu/kernel_list.inc is to have one line of it";
  }
  for (const KernelEntry& entry : CpuKernels()) {
    const bool instruction = entry.op == "copy" || entry.op == "fold" || entry.op == "accumulate";
    EXPECT_TRUE(instruction || FindOp(entry.op) != nullptr)
        << entry.op << " of kernels/cpu/kernel_list.inc is not listed in ops/op_list.inc";
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

TensorType F32(const Shape& shape) { return {DType::kF32, shape}; }
TensorType I32(const Shape& shape) { return {DType::kI32, shape}; }

void CheckLarge(const OpDef& op, const OpCase& large) {
  auto values = RunWhole(op, large, /*seed=*/7);
  ASSERT_TRUE(values.ok()) << values.status();
  std::string shapes;
  for (const TensorType& type : values->input_types) shapes += type.shape.ToString();
  std::vector<HostTensor> first;
  for (int threads : {1, 2, 3}) {
    KernelCall call;
    call.op = op.name;
    call.attributes = PrintAttributes(large.attributes);
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
    const OpCall types = {large.attributes, values->input_types, values->output_types};
    EXPECT_LE(run->scratch, op.cost(types).scratch)
        << op.name << shapes << " with " << threads << " threads";
    for (size_t i = 0; i < run->outputs.size(); ++i) {
      EXPECT_EQ(Compare(values->outputs[i], run->outputs[i], large.tolerance), "")
          << op.name << shapes << " output " << i;
    }
    for (size_t i = 0; i < run->updated.size(); ++i) {
      if (!Updates(op, i)) continue;
      EXPECT_EQ(Compare(values->updated[i], run->updated[i], large.tolerance), "")
          << op.name << shapes << " updated input " << i;
    }
    if (threads == 1) {
      first = run->bytes;
      ExpectBitsOfEveryLevel(call, *run);
    }
    for (size_t i = 0; i < first.size(); ++i) {
      EXPECT_EQ(first[i].bytes, run->bytes[i].bytes)
          << op.name << shapes << ": operand " << i << " has other bits with " << threads
          << " threads";
    }
  }
}

TEST(KernelsTest, LargeShapesAgreeAndBitsDoNotDependOnThreads) {
  for (const OpDef* op : AllOps()) {
    EXPECT_FALSE(op->large_cases.empty()) << op->name << " has no OpDef::large_cases";
    for (const OpCase& large : op->large_cases) CheckLarge(*op, large);
  }
}

// The case with its operands in bf16, but for statistics. What is computed is rounded once where it
// is written, to eight bits; of a fused op, what it is made of rounds as well.
OpCase InBf16(const OpDef& op, const OpCase& f32) {
  OpCase low = f32;
  for (size_t i = 0; i < low.inputs.size(); ++i) {
    if (low.inputs[i].dtype != DType::kF32 || InputPort(op, i).statistic) continue;
    low.inputs[i].dtype = DType::kBF16;
  }
  const bool fused = std::count(FusedOps().begin(), FusedOps().end(), &op) > 0;
  low.tolerance = std::max(f32.tolerance, fused ? 0x1p-7 : 0x1p-8);
  return low;
}

TEST(KernelsTest, OpsThatSaySoComputeInBf16) {
  int tried = 0;
  for (const OpDef* op : AllOps()) {
    if (op->computes_in == ComputesIn::kF32) continue;
    for (const OpCase& f32 : op->cases) {
      const OpCase low = InBf16(*op, f32);
      const auto values = RunWhole(*op, low, /*seed=*/11);
      ASSERT_TRUE(values.ok()) << values.status();
      for (int64_t shards : {1, 3}) {
        const auto signatures =
            SignaturesOf(*op, {low.attributes, values->input_types, values->output_types}, shards);
        ASSERT_TRUE(signatures.ok()) << signatures.status();
        for (const Signature& signature : *signatures) {
          ++tried;
          CheckSignature(*op, low, *values, signature, shards);
        }
      }
    }
    for (const OpCase& large : op->large_cases) CheckLarge(*op, InBf16(*op, large));
  }
  EXPECT_GT(tried, 400);
}

bool HasIds(const OpCase& op_case) {
  return std::any_of(op_case.inputs.begin(), op_case.inputs.end(),
                     [](const TensorType& type) { return !IsFloat(type.dtype); });
}

// Rows of every length that loops over vectors treat apart. What goes with the last dimension of
// the first input is what the index rule says; other extents stay, and so do attributes, where they
// suit.
TEST(KernelsTest, RowsOfEveryLengthAgree) {
  int tried = 0;
  for (const OpDef* op : AllOps()) {
    for (const OpCase& op_case : op->cases) {
      const auto factors = FactorsOf(*op, op_case);
      if (!factors.ok() || factors->inputs.empty() || factors->inputs[0].empty()) continue;
      if (factors->inputs[0].back() == kOneFactor) continue;
      for (int64_t length : {1, 15, 16, 17, 63, 64, 65, 100}) {
        // Labels look into rows of the case's own length.
        if (HasIds(op_case) && length <= std::ceil(op_case.high)) continue;
        const OpCase resized = Resized(op_case, *factors, {{factors->inputs[0].back(), length}});
        if (!op->infer({resized.attributes, resized.inputs, {}}).ok()) continue;
        ++tried;
        CheckLarge(*op, resized);
      }
    }
  }
  std::cout << tried << " tried\n";
  EXPECT_GT(tried, 400);
}

// What a NaN touches is NaN. Which of them, of several, differs between levels of the instruction
// set, and so may its sign.
void CheckNan(const OpDef& op, const OpCase& op_case) {
  auto values = RunWhole(op, op_case, /*seed=*/13);
  ASSERT_TRUE(values.ok()) << values.status();
  const TensorType x = values->input_types[0];
  values->inputs[0].values.back() = std::nan("");
  std::vector<ShardArray> inputs = {{x, WholeBox(x.shape), values->inputs[0]}};
  std::vector<ShardArray> outputs;
  for (const TensorType& y : values->output_types) {
    outputs.push_back({y, WholeBox(y.shape), Array(y.shape)});
  }
  ASSERT_TRUE(op.reference({op_case.attributes, absl::MakeSpan(inputs), absl::MakeSpan(outputs),
                            kCaseSeed, kCaseStep})
                  .ok());
  KernelCall call;
  call.op = op.name;
  call.attributes = PrintAttributes(op_case.attributes);
  call.seed = kCaseSeed;
  call.step = kCaseStep;
  call.inputs = {{x, WholeBox(x.shape), values->inputs[0]}};
  for (const ShardArray& y : outputs) call.outputs.push_back({y.logical, y.box, {}});
  const auto run = RunKernel(call);
  ASSERT_TRUE(run.ok()) << op.name << ": " << run.status();
  const Array& expected = outputs[0].array;
  for (size_t i = 0; i < expected.values.size(); ++i) {
    EXPECT_EQ(std::isnan(run->outputs[0].values[i]), std::isnan(expected.values[i]))
        << op.name << " element " << i;
  }
}

TEST(KernelsTest, NansComeOut) {
  int tried = 0;
  for (const OpDef* op : AllOps()) {
    for (const OpCase& op_case : op->cases) {
      // An integer has no NaN, nor would a cast to one.
      if (op_case.inputs.size() != 1 || HasIds(op_case)) continue;
      const auto types = op->infer({op_case.attributes, op_case.inputs, {}});
      ASSERT_TRUE(types.ok()) << types.status();
      if (!IsFloat((*types)[0].dtype)) continue;
      ++tried;
      CheckNan(*op, op_case);
    }
  }
  EXPECT_GT(tried, 40);
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
  const TensorType wide = {DType::kF64, {2}};
  const auto other = RunKernel(CallOf("gelu", {wide}, {Array(Shape{2})}, {wide}));
  EXPECT_EQ(other.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(other.status().message(), "no CPU kernel for gelu(f64[2]) -> f64[2]");
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
  for (DType dtype : kDTypes) {
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
    EXPECT_EQ(std::signbit(y[0]), IsFloat(dtype));
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
