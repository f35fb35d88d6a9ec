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
#include "framework/conformance/kernel_checker.h"
#include "framework/conformance/kernel_run.h"
#include "framework/kernels/cpu/vector.h"
#include "framework/ops/all_ops.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

std::string ShapesOf(const KernelCall& call) {
  std::string shapes;
  for (const KernelOperand& operand : call.inputs) shapes += ShapeOf(operand.box).ToString();
  return shapes;
}

// A kernel on AVX2, and on AVX-512 without products of bf16, gives the bits of `run`, which had the
// best that the processor has.
std::string BitsOfEveryLevel(const KernelCall& call, const KernelRun& run) {
  for (const cpu::Isa isa : {cpu::Isa::kV3, cpu::Isa::kV4}) {
    if (!cpu::Runs(isa)) continue;
    const cpu::ScopedIsa lower(isa);
    const absl::StatusOr<KernelRun> again = RunKernel(call);
    if (!again.ok()) return again.status().ToString();
    for (size_t i = 0; i < run.bytes.size(); ++i) {
      if (run.bytes[i].bytes == again->bytes[i].bytes) continue;
      return absl::StrCat(call.op, " of ", ShapesOf(call), ": operand ", i, " has other bits with ",
                          isa == cpu::Isa::kV3 ? "AVX2" : "AVX-512 alone", " than with the best");
    }
  }
  return "";
}

const KernelChecker& Checker() {
  static const auto* const checker =
      new KernelChecker(DeviceKind::kCpu, RunKernel, BitsOfEveryLevel);
  return *checker;
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
      ASSERT_EQ(Checker().CheckCase(*op, op_case, {1, 2, 3, 9}, &tried), "");
    }
  }
  std::cout << tried << " tried\n";
  EXPECT_GT(tried, 1400);
}

TensorType F32(const Shape& shape) { return {DType::kF32, shape}; }
TensorType I32(const Shape& shape) { return {DType::kI32, shape}; }

constexpr int kMostThreads = 3;

TEST(KernelsTest, LargeShapesAgreeAndBitsDoNotDependOnThreads) {
  for (const OpDef* op : AllOps()) {
    EXPECT_FALSE(op->large_cases.empty()) << op->name << " has no OpDef::large_cases";
    for (const OpCase& large : op->large_cases) {
      EXPECT_EQ(Checker().CheckWhole(*op, large, kMostThreads), "");
    }
  }
}

TEST(KernelsTest, OpsThatSaySoComputeInBf16) {
  int tried = 0;
  for (const OpDef* op : AllOps()) {
    if (op->computes_in == ComputesIn::kF32) continue;
    for (const OpCase& f32 : op->cases) {
      ASSERT_EQ(Checker().CheckCase(*op, InBf16(*op, f32), {1, 3}, &tried), "");
    }
    for (const OpCase& large : op->large_cases) {
      EXPECT_EQ(Checker().CheckWhole(*op, InBf16(*op, large), kMostThreads), "");
    }
  }
  EXPECT_GT(tried, 400);
}

TEST(KernelsTest, RowsOfEveryLengthAgree) {
  int tried = 0;
  for (const OpDef* op : AllOps()) {
    for (const OpCase& rows : RowCases(*op, {1, 15, 16, 17, 63, 64, 65, 100})) {
      ++tried;
      EXPECT_EQ(Checker().CheckWhole(*op, rows, kMostThreads), "");
    }
  }
  std::cout << tried << " tried\n";
  EXPECT_GT(tried, 400);
}

TEST(KernelsTest, NansComeOut) {
  int tried = 0;
  for (const OpDef* op : AllOps()) {
    for (const OpCase& op_case : NanCases(*op)) {
      ++tried;
      EXPECT_EQ(Checker().CheckNan(*op, op_case), "");
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
