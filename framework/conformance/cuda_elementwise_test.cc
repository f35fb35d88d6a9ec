// Of elementwise CUDA kernels what the cases of their ops do not reach: walks by packs of 16 bytes
// and by elements, tiles of transposes, every pair of types, and folds of every kind. All have the
// bits of the CPU.
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/conformance/cuda_run.h"
#include "framework/conformance/kernel_checker.h"
#include "framework/ops/all_ops.h"
#include "framework/testing/xorshift.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

const KernelChecker& Checker() {
  static const auto* const checker = new KernelChecker(DeviceKind::kCuda, RunOnCuda, BitsOfCpu);
  return *checker;
}

// What the op's case gives on a whole, in two orders of threads.
void CheckWhole(const std::string& name, const OpCase& op_case) {
  const OpDef* const op = FindOp(name);
  ASSERT_NE(op, nullptr) << name;
  EXPECT_EQ(Checker().CheckWhole(*op, op_case, 2), "");
}

// And on the shards of every signature.
void Check(const std::string& name, const OpCase& op_case) {
  CheckWhole(name, op_case);
  int tried = 0;
  EXPECT_EQ(Checker().CheckCase(*FindOp(name), op_case, {2, 3}, &tried), "");
  EXPECT_GT(tried, 0);
}

// Of f32, and of bf16.
void CheckFloats(const std::string& name, const OpCase& op_case) {
  Check(name, op_case);
  Check(name, InBf16(*FindOp(name), op_case));
}

TensorType F32(const Shape& shape) { return {DType::kF32, shape}; }

TEST(CudaElementwiseTest, OperandsThatAreBroadcast) {
  const std::vector<std::vector<Shape>> operands = {
      {{8, 24}, {8, 24}}, {{5, 7}, {5, 7}},    {{8, 24}, {24}},        {{24}, {8, 24}},
      {{8, 24}, {8, 1}},  {{8, 1}, {1, 16}},   {{4, 1, 16}, {5, 16}},  {{}, {8, 16}},
      {{7, 24}, {7, 1}},  {{3, 4, 8}, {4, 1}}, {{6, 5, 8}, {6, 1, 8}}, {{2, 3, 4, 9}, {3, 1, 9}}};
  for (const std::vector<Shape>& shapes : operands) {
    for (const char* op : {"add", "subtract", "multiply", "divide"}) {
      CheckFloats(op, {"", NoAttributes(), {F32(shapes[0]), F32(shapes[1])}, 0.5, 2});
      if (op == std::string("divide")) continue;
      Check(op, {"", NoAttributes(), {{DType::kI32, shapes[0]}, {DType::kI32, shapes[1]}}, -9, 9});
    }
  }
}

TEST(CudaElementwiseTest, ManyTerms) {
  for (const size_t count : {1, 2, 8, 9, 40}) {
    CheckFloats("add_n", {"", NoAttributes(), std::vector<TensorType>(count, F32({6, 37}))});
  }
}

TEST(CudaElementwiseTest, PermutationsByTilesAndByRuns) {
  const std::vector<Shape> shapes = {{40, 56}, {9, 100}, {3, 40, 17}, {2, 16, 9, 24}, {3, 8, 8}};
  for (const Shape& shape : shapes) {
    std::vector<int64_t> order(shape.rank());
    std::iota(order.begin(), order.end(), 0);
    do {
      const TransposeAttributes attributes = {Shape(order)};
      for (const DType dtype : kDTypes) {
        const OpCase op_case = {"", attributes, {{dtype, shape}}, 0, 9};
        CheckWhole("transpose", op_case);
        CheckWhole("transpose_gradient", op_case);
      }
    } while (std::next_permutation(order.begin(), order.end()));
  }
  Check("transpose", {"", TransposeAttributes{{0, 2, 1, 3}}, {F32({4, 12, 8, 16})}});
}

TEST(CudaElementwiseTest, CopiesByWordsOfEverySize) {
  for (const DType dtype : kDTypes) {
    for (const int64_t width : {1, 2, 3, 4, 8, 16, 24}) {
      const TensorType type = {dtype, {4, 6, width}}, other = {dtype, {4, 3, width}};
      Check("slice", {"", SliceAttributes{1, 2, 5, 6}, {type}, 0, 9});
      Check("slice", {"", SliceAttributes{0, 1, 4, 4}, {type}, 0, 9});
      Check("pad", {"", SliceAttributes{1, 2, 8, 9}, {type}, 0, 9});
      Check("concat", {"", ConcatAttributes{1}, {type, other, type}, 0, 9});
      Check("broadcast", {"", ShapeAttributes{{4, 6, width}}, {{dtype, {6, 1}}}, 0, 9});
      Check("broadcast", {"", ShapeAttributes{{5, 4, 6, width}}, {type}, 0, 9});
      Check("fill", {"", FillAttributes{1, {5, width}, dtype}, {}});
    }
    Check("pad", {"", SliceAttributes{1, 1, 17, 32}, {{dtype, {4, 16}}}, 0, 9});
    Check("slice", {"", SliceAttributes{1, 3, 19, 24}, {{dtype, {4, 24}}}, 0, 9});
    Check("slice", {"", SliceAttributes{1, 8, 24, 24}, {{dtype, {4, 24}}}, 0, 9});
    Check("reshape", {"", ShapeAttributes{{24, 4}}, {{dtype, {4, 24}}}, 0, 9});
  }
}

TEST(CudaElementwiseTest, CastsBetweenAllTypes) {
  for (const DType from : kDTypes) {
    for (const DType to : kDTypes) {
      for (const int64_t n : {1, 16, 37, 1000}) {
        CheckWhole("cast", {"", CastAttributes{to}, {{from, {n, 2}}}, 0, 200, 1e-2});
      }
    }
  }
}

TEST(CudaElementwiseTest, DropoutDrawsByLogicalIndex) {
  for (const Shape& shape :
       {Shape{6, 48}, Shape{5, 24}, Shape{2, 3, 7}, Shape{31}, Shape{14}, Shape{3, 2}}) {
    CheckFloats("dropout", {"", DropoutAttributes{0.4, 12345}, {F32(shape)}});
  }
}

TEST(CudaElementwiseTest, RowsOfChannels) {
  for (const int64_t channels : {1, 3, 8, 16, 17}) {
    const TensorType x = F32({7, channels}), slope = F32({channels});
    CheckFloats("prelu", {"", NoAttributes(), {x, slope}});
    CheckFloats("prelu_gradient", {"", NoAttributes(), {x, slope, x}});
    NormalizeImagesAttributes attributes;
    for (int64_t c = 0; c < channels; ++c) {
      attributes.mean.push_back(0.3 + 0.01 * static_cast<double>(c));
      attributes.stddev.push_back(0.2 + 0.02 * static_cast<double>(c));
    }
    Check("normalize_images", {"", attributes, {{DType::kU8, {2, 5, 3, channels}}}, 0, 255});
  }
  NormalizeImagesAttributes many;  // more than a kernel's argument takes at a time
  for (int c = 0; c < 150; ++c) {
    many.mean.push_back(0.003 * c);
    many.stddev.push_back(0.1 + 0.002 * c);
  }
  Check("normalize_images", {"", many, {{DType::kU8, {5, 150}}}, 0, 255});
}

Array Drawn(const Shape& shape, Xorshift* random) {
  Array array(shape);
  for (double& value : array.values) {
    value = random->Below(2001) * 0.002 - 2;
    if (random->Below(6) == 0)
      value = random->Below(2) == 0 ? 0.0 : -0.0;  // of maxima, the order shows
  }
  return array;
}

KernelOperand Operand(DType dtype, const Array& array) {
  return {{dtype, array.shape}, WholeBox(array.shape), ToArray(FromArray(array, dtype))};
}

Array Scalar(double value) {
  Array array(Shape{});
  array.values[0] = value;
  return array;
}

// "" if both kinds of devices give the same bits.
std::string Compare(const KernelCall& call) {
  const absl::StatusOr<KernelRun> run = RunOnCuda(call);
  return run.ok() ? BitsOfCpu(call, *run) : run.status().ToString();
}

TEST(CudaElementwiseTest, StepsOfUpdatesAreThoseOfTheCpu) {
  Xorshift random(1);
  for (const int64_t step : {1, 2, 3, 10, 31, 1000, 12345, 999999, 2147483647}) {
    for (const double beta2 : {0.95, 0.999}) {
      KernelCall call;
      call.op = "adamw";
      call.attributes = PrintAttributes(AdamWAttributes{0.9, beta2, 1e-8, 0.1});
      for (int i = 0; i < 4; ++i) {
        Array array = Drawn({37}, &random);
        for (double& value : array.values) value = std::abs(value);
        call.inputs.push_back(Operand(DType::kF32, array));
      }
      call.inputs.push_back(Operand(DType::kF32, Scalar(0.7)));
      call.inputs.push_back(Operand(DType::kF32, Scalar(3e-4)));
      call.inputs.push_back(Operand(DType::kI32, Scalar(static_cast<double>(step))));
      call.updates = {true, true, true, false, false, false, false};
      EXPECT_EQ(Compare(call), "") << "step " << step;
    }
  }
}

TEST(CudaElementwiseTest, FtrlAtARateOfNothingChangesNothing) {
  Xorshift random(2);
  KernelCall call;
  call.op = "ftrl_value";
  call.attributes = PrintAttributes(FtrlAttributes{0.1, 0.1, 1});
  const Array z = Drawn({9}, &random);
  for (const Array& array :
       {Drawn({9}, &random), z, z, Drawn({9}, &random), Scalar(1), Scalar(0)}) {
    call.inputs.push_back(Operand(DType::kF32, array));
  }
  call.outputs = {{F32({9}), WholeBox({9}), {}}};
  call.updates = {false, true, true, false, false, false};
  EXPECT_EQ(Compare(call), "");
  const absl::StatusOr<KernelRun> run = RunOnCuda(call);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->outputs[0].values, call.inputs[0].array.values);
  EXPECT_EQ(run->updated[1].values, call.inputs[1].array.values);
}

// A fold in postfix form over the sources, each once, in any order and any shape of tree.
std::vector<int> Expression(int sources, Xorshift* random) {
  std::vector<int> order(sources), words;
  std::iota(order.begin(), order.end(), 0);
  for (int i = sources - 1; i > 0; --i) std::swap(order[i], order[random->Below(i + 1)]);
  int depth = 0, next = 0;
  while (next < sources || depth > 1) {
    const bool full = depth == 20 || next == sources;
    if (depth > 1 && (full || random->Below(2) == 0)) {
      words.push_back(-1);
      --depth;
    } else {
      words.push_back(order[next++]);
      ++depth;
    }
  }
  return words;
}

// A box of `extent` within a larger array of its own: where it begins, and the strides.
Shape Around(const Shape& extent, int64_t unit, Xorshift* random, int64_t* offset) {
  Shape outer = extent, begin = extent;
  for (int d = 0; d < extent.rank(); ++d) {
    const int64_t before = random->Below(3) * unit;
    outer[d] = extent[d] + before + random->Below(2) * unit;
    begin[d] = before;
  }
  const Shape strides = outer.Strides();
  *offset = 0;
  for (int d = 0; d < extent.rank(); ++d) *offset += begin[d] * strides[d];
  return outer;
}

// `unit`: what extents and places are multiples of, so that items of that many elements are walked.
KernelCall RandomFold(DType dtype, int sources, int64_t unit, Xorshift* random) {
  KernelCall call;
  call.op = "fold";
  call.reduction =
      std::vector<Reduction>{Reduction::kSum, Reduction::kMax, Reduction::kMin}[random->Below(3)];
  call.fill_identity = random->Below(2) == 0;
  FoldRegion region;
  for (int d = random->Below(3); d >= 0; --d) region.extent.Append((1 + random->Below(5)) * unit);
  for (int i = 0; i < sources; ++i) {
    int64_t offset;
    const Shape outer = Around(region.extent, unit, random, &offset);
    call.inputs.push_back(Operand(dtype, Drawn(outer, random)));
    region.sources.push_back(i);
    region.source_offsets.push_back(offset);
    region.source_strides.push_back(outer.Strides());
  }
  const Shape outer = Around(region.extent, unit, random, &region.offset);
  region.strides = outer.Strides();
  region.fold = Expression(sources, random);
  call.outputs = {{{dtype, outer}, WholeBox(outer), {}}};
  call.regions = {region};
  return call;
}

TEST(CudaElementwiseTest, FoldsHaveTheBitsOfTheCpu) {
  Xorshift random(3);
  for (int round = 0; round < 60; ++round) {
    for (const DType dtype : kDTypes) {
      const int sources = round % 20 == 0 ? 95 : 1 + random.Below(round % 2 == 0 ? 4 : 12);
      const int64_t unit = std::vector<int64_t>{1, 2, 8}[random.Below(3)];
      KernelCall call = RandomFold(dtype, sources, unit, &random);
      // Sums of bytes that go beyond 255 are of no meaning.
      if (dtype == DType::kU8 || dtype == DType::kI32) {
        for (KernelOperand& input : call.inputs) {
          for (double& value : input.array.values) value = random.Below(3);
        }
      }
      EXPECT_EQ(Compare(call), "") << "round " << round << ", " << DTypeName(dtype) << ", "
                                   << sources << " sources, unit " << unit;
    }
  }
}

TEST(CudaElementwiseTest, RegionsOfAMicroBatchApplyThenOnly) {
  Xorshift random(4);
  KernelCall call = RandomFold(DType::kF32, 2, 1, &random);
  call.fill_identity = true;
  call.regions.push_back(call.regions[0]);
  call.regions[0].micro = 1;
  call.regions[1].micro = 2;
  call.regions[1].fold = {1};
  for (call.micro = 0; call.micro < 3; ++call.micro) EXPECT_EQ(Compare(call), "");
}

TEST(CudaElementwiseTest, FoldsThatAreNoExpressionAreRefused) {
  Xorshift random(5);
  KernelCall call = RandomFold(DType::kF32, 2, 1, &random);
  call.regions[0].fold = {0, 1};
  const absl::Status refused = RunOnCuda(call).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(refused.message(), RunKernel(call).status().message());
}

TEST(CudaElementwiseTest, AccumulateSetsFirstAndCombinesLater) {
  Xorshift random(6);
  for (const DType dtype : kDTypes) {
    for (const Reduction reduction : {Reduction::kSum, Reduction::kMax, Reduction::kMin}) {
      for (const int64_t n : {0, 5, 16, 1001}) {
        KernelCall call;
        call.op = "accumulate";
        call.reduction = reduction;
        for (auto* operands : {&call.inputs, &call.outputs}) {
          Array array(Shape{n});
          for (double& value : array.values) value = random.Below(100);
          operands->push_back(Operand(dtype, array));
        }
        for (call.micro = 0; call.micro < 2; ++call.micro) {
          EXPECT_EQ(Compare(call), "") << DTypeName(dtype) << " " << n;
        }
      }
    }
  }
}

}  // namespace
}  // namespace sluice
