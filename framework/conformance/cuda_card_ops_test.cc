// Ops that stand for several on CUDA devices. Products with what follows them, where cuBLASLt has
// the epilogue and where it has none: the same values to rounding, by as many launches of our own
// as the library leaves. f32 has the bits of the ops that are stood for. cuda_kernels_test has the
// cases themselves.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "framework/conformance/case_values.h"
#include "framework/conformance/cuda_run.h"
#include "framework/conformance/kernel_checker.h"
#include "framework/ops/all_ops.h"
#include "framework/ops/card_ops.h"
#include "framework/ops/op_defs.h"
#include "framework/testing/cuda_emulation/cublaslt.h"
#include "framework/testing/cuda_order.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// While it lives the library has no epilogue.
class WithoutEpilogues {
 public:
  WithoutEpilogues() { cuda_emulation::SetCublasLtEpilogues(false); }
  ~WithoutEpilogues() { cuda_emulation::SetCublasLtEpilogues(true); }
};

const OpCase& CaseOf(const OpDef& op, const std::string& name) {
  for (const OpCase& op_case : op.cases) {
    if (op_case.name == name) return op_case;
  }
  ADD_FAILURE() << op.name << " has no case " << name;
  return op.cases[0];
}

// How many kernels of ours a case launches, beside the one that writes the number of the step.
int64_t LaunchesOf(const std::string& name, const std::string& of, DType dtype) {
  const OpDef& op = *FindOp(name);
  const OpCase op_case = dtype == DType::kBF16 ? InBf16(op, CaseOf(op, of)) : CaseOf(op, of);
  const KernelChecker checker(DeviceKind::kCuda, RunOnCuda,
                              [](const KernelCall&, const KernelRun&) { return ""; });
  EXPECT_EQ(checker.CheckWhole(op, op_case, 1), "");
  return CountCudaLaunches().kernels - 1;
}

TEST(CudaCardOpsTest, WhatTheLibraryDoesIsNotLaunched) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const bool f32 = dtype == DType::kF32;
    EXPECT_EQ(LaunchesOf("matmul_bias", "wide", dtype), 0);
    // The library's gelu is not exact enough for f32.
    EXPECT_EQ(LaunchesOf("matmul_bias_gelu", "wide", dtype), f32 ? 1 : 0);
    EXPECT_EQ(LaunchesOf("matmul_bias_gelu_aux", "wide", dtype), f32 ? 1 : 0);
    // What it keeps, and reads again, has rows of eight elements at least.
    EXPECT_EQ(LaunchesOf("matmul_bias_gelu", "matrix", dtype), f32 ? 1 : 0);
    EXPECT_EQ(LaunchesOf("matmul_bias_gelu_aux", "matrix", dtype), 1);
  }
}

TEST(CudaCardOpsTest, WithoutEpiloguesKernelsOfOursDoIt) {
  const WithoutEpilogues none;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    EXPECT_EQ(LaunchesOf("matmul_bias", "wide", dtype), 1);
    EXPECT_EQ(LaunchesOf("matmul_bias_gelu", "wide", dtype), 2);
    EXPECT_EQ(LaunchesOf("matmul_bias_gelu_aux", "wide", dtype), 2);
  }
}

TEST(CudaCardOpsTest, WithoutEpiloguesValuesAreTheSame) {
  const WithoutEpilogues none;
  const KernelChecker checker(DeviceKind::kCuda, RunOnCuda,
                              [](const KernelCall&, const KernelRun&) { return ""; });
  int tried = 0;
  for (const OpDef* op : CardOps()) {
    if (op->computes_in != ComputesIn::kLow) continue;  // no product
    for (const OpCase& op_case : op->cases) {
      EXPECT_EQ(checker.CheckCase(*op, op_case, {1, 3}, &tried), "");
      // The product is rounded, too, and may be larger than what a bias leaves of it.
      OpCase bf16 = InBf16(*op, op_case);
      bf16.tolerance = 0x1p-6;
      EXPECT_EQ(checker.CheckCase(*op, bf16, {1, 3}, &tried), "");
    }
    for (const OpCase& large : op->large_cases) EXPECT_EQ(checker.CheckWhole(*op, large, 2), "");
  }
  EXPECT_GT(tried, 100);
}

// Outputs, then inputs.
std::vector<HostTensor> ResultsOf(const OpDef& op, const Attributes& attributes,
                                  std::vector<KernelOperand> inputs) {
  KernelCall call;
  call.op = op.name;
  call.attributes = PrintAttributes(attributes);
  std::vector<TensorType> types;
  for (const KernelOperand& input : inputs) types.push_back(input.logical);
  const auto made = op.infer({attributes, types, {}});
  EXPECT_TRUE(made.ok()) << made.status();
  if (!made.ok()) return {};
  for (const TensorType& type : *made) call.outputs.push_back({type, WholeBox(type.shape), {}});
  call.updates.resize(inputs.size());
  call.inputs = std::move(inputs);
  const auto run = RunOnCuda(call);
  EXPECT_TRUE(run.ok()) << run.status();
  return run.ok() ? run->bytes : std::vector<HostTensor>();
}

std::vector<KernelOperand> OperandsOf(const OpDef& op, const OpCase& op_case) {
  const auto values = RunWhole(op, op_case, /*seed=*/5);
  EXPECT_TRUE(values.ok()) << values.status();
  std::vector<KernelOperand> operands;
  for (size_t i = 0; i < values->inputs.size(); ++i) {
    const TensorType& type = values->input_types[i];
    operands.push_back({type, WholeBox(type.shape), values->inputs[i]});
  }
  return operands;
}

KernelOperand OperandOf(const HostTensor& tensor) {
  return {{tensor.dtype, tensor.shape}, WholeBox(tensor.shape), ToArray(tensor)};
}

// Plans that fuse have the bits of those that do not.
TEST(CudaCardOpsTest, ABiasOfF32HasTheBitsOfAProductAndAnAddition) {
  const OpDef& op = MatMulBiasOp();
  for (const OpCase& op_case : op.cases) {
    const std::vector<KernelOperand> at = OperandsOf(op, op_case);
    const auto fused = ResultsOf(op, op_case.attributes, at);
    const auto product = ResultsOf(MatMulOp(), op_case.attributes, {at[0], at[1]});
    const auto sum = ResultsOf(AddOp(), NoAttributes(), {OperandOf(product[0]), at[2]});
    EXPECT_TRUE(fused[0].bytes == sum[0].bytes) << op_case.name;
  }
}

TEST(CudaCardOpsTest, AProductThatIsAddedHasTheBitsOfAProductAndAnAdditionInF32) {
  const std::pair<const OpDef*, const OpDef*> kOps[] = {
      {&MatMulInputGradientAddOp(), &MatMulInputGradientOp()},
      {&MatMulWeightGradientAddOp(), &MatMulWeightGradientOp()}};
  for (const auto& [op, alone] : kOps) {
    for (const OpCase& op_case : op->cases) {
      const std::vector<KernelOperand> at = OperandsOf(*op, op_case);
      const auto fused = ResultsOf(*op, op_case.attributes, at);
      const auto product = ResultsOf(*alone, op_case.attributes, {at[0], at[1]});
      const auto sum = ResultsOf(AddOp(), NoAttributes(), {at[2], OperandOf(product[0])});
      EXPECT_TRUE(fused[0].bytes == sum[0].bytes) << op->name << " " << op_case.name;
    }
  }
}

// All cases of an op, and rows of lengths that a warp and a block take, in packs and not.
std::vector<OpCase> CasesOf(const OpDef& op) {
  std::vector<OpCase> cases = op.cases;
  cases.insert(cases.end(), op.large_cases.begin(), op.large_cases.end());
  for (const OpCase& rows : RowCases(op, {1, 100, 136, 320, 768, 1024, 1025, 1032})) {
    cases.push_back(rows);
  }
  return cases;
}

HostTensor CastTo(DType dtype, const KernelOperand& x) {
  return ResultsOf(CastOp(), CastAttributes{dtype}, {x})[0];
}

// Few rows, and so many that they are summed in blocks; of bf16 by pairs of columns, and where
// those are odd by columns. One column alone is all of a tensor, which is summed in f64.
TEST(CudaCardOpsTest, AGradientThatIsSummedHasTheBitsOfBoth) {
  struct Summed {
    const OpDef &op, &gradient;
    const OpDef* value;
  };
  for (const auto& [op, gradient, value] :
       {Summed{GeluGradientSumOp(), GeluGradientOp(), nullptr},
        Summed{GeluErfGradientSumOp(), GeluErfGradientOp(), nullptr},
        Summed{GeluGradientSumAndValueOp(), GeluGradientOp(), &GeluOp()},
        Summed{GeluErfGradientSumAndValueOp(), GeluErfGradientOp(), &GeluErfOp()}}) {
    std::vector<OpCase> cases = op.cases;
    cases.insert(cases.end(), op.large_cases.begin(), op.large_cases.end());
    for (const int64_t width : {2, 62, 66, 67}) {
      for (const int64_t rows : {1, 63, 64, 65, 200, 1203}) {
        OpCase& added = cases.emplace_back(op.cases[0]);
        added.inputs.assign(2, {DType::kF32, {rows, width}});
      }
    }
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const OpCase& of_f32 : cases) {
        SCOPED_TRACE(op.name + of_f32.inputs[0].shape.ToString());
        const OpCase op_case = dtype == DType::kBF16 ? InBf16(op, of_f32) : of_f32;
        const std::vector<KernelOperand> at = OperandsOf(op, op_case);
        const auto fused = ResultsOf(op, op_case.attributes, at);
        const auto dx = ResultsOf(gradient, NoAttributes(), at);
        const auto sum = ResultsOf(ReduceOp(), op_case.attributes, {OperandOf(dx[0])});
        ASSERT_EQ(fused.size(), value == nullptr ? 4u : 5u);
        EXPECT_EQ(fused[0].dtype, dtype);
        EXPECT_TRUE(fused[0].bytes == dx[0].bytes);
        EXPECT_TRUE(fused[1].bytes == sum[0].bytes);
        if (value == nullptr) continue;
        const auto y = ResultsOf(*value, NoAttributes(), {at[0]});
        EXPECT_TRUE(fused[2].bytes == y[0].bytes);
      }
    }
  }
}

TEST(CudaCardOpsTest, ASumWithACastHasTheBitsOfBoth) {
  for (const OpCase& op_case : CasesOf(CastAddOp())) {
    const std::vector<KernelOperand> at = OperandsOf(CastAddOp(), op_case);
    const HostTensor b = CastTo(DType::kF32, at[1]);
    const auto sum = ResultsOf(AddOp(), NoAttributes(), {at[0], OperandOf(b)});
    const auto fused = ResultsOf(CastAddOp(), op_case.attributes, at);
    EXPECT_TRUE(fused[0].bytes == sum[0].bytes) << op_case.name;
  }
}

// And maxima of zeros of both signs.
TEST(CudaCardOpsTest, BothFoldsOfARowHaveTheBitsOfEach) {
  const OpDef& op = CrossEntropyMaxAndSumExpOp();
  std::vector<OpCase> cases = CasesOf(op);
  for (const int64_t width : {4096, 4097, 8300}) {
    cases.push_back({"long", NoAttributes(), {{DType::kF32, {3, width}}}});
  }
  for (const OpCase& of_f32 : cases) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      SCOPED_TRACE(of_f32.name + of_f32.inputs[0].shape.ToString());
      const OpCase op_case = dtype == DType::kBF16 ? InBf16(op, of_f32) : of_f32;
      std::vector<KernelOperand> at = OperandsOf(op, op_case);
      for (const bool zeros : {false, true}) {
        for (double& x : at[0].array.values) x = zeros ? std::copysign(0.0, x) : x;
        const auto fused = ResultsOf(op, NoAttributes(), at);
        const auto max = ResultsOf(CrossEntropyMaxOp(), NoAttributes(), at);
        const auto sum =
            ResultsOf(CrossEntropySumExpOp(), NoAttributes(), {at[0], OperandOf(max[0])});
        ASSERT_GE(fused.size(), 2u);
        EXPECT_TRUE(fused[0].bytes == max[0].bytes);
        EXPECT_TRUE(fused[1].bytes == sum[0].bytes);
      }
    }
  }
}

TEST(CudaCardOpsTest, ANormsGradientThatIsCastHasTheBitsOfBoth) {
  const OpDef& op = LayerNormGradientCastOp();
  for (const OpCase& op_case : CasesOf(op)) {
    const std::vector<KernelOperand> at = OperandsOf(op, op_case);
    const auto fused = ResultsOf(op, op_case.attributes, at);
    const auto dx = ResultsOf(LayerNormGradientOp(), op_case.attributes, at);
    ASSERT_GE(fused.size(), 2u);
    EXPECT_TRUE(fused[0].bytes == dx[0].bytes) << op_case.name;
    EXPECT_TRUE(fused[1].bytes == CastTo(DType::kBF16, OperandOf(dx[0])).bytes) << op_case.name;
  }
}

TEST(CudaCardOpsTest, ANormOfASumHasTheBitsOfBoth) {
  for (const OpDef* op : {&AddLayerNormOp(), &AddLayerNormCastOp(), &AddLayerNormAndCastOp()}) {
    const DType of_y = op == &AddLayerNormCastOp() ? DType::kBF16 : DType::kF32;
    for (const OpCase& op_case : CasesOf(*op)) {
      const std::vector<KernelOperand> at = OperandsOf(*op, op_case);
      const auto fused = ResultsOf(*op, op_case.attributes, at);
      const auto& a = std::get<AddNormAttributes>(op_case.attributes);
      const auto dropped = ResultsOf(DropoutOp(), DropoutAttributes{a.rate, a.key}, {at[1]});
      const HostTensor b = CastTo(DType::kF32, OperandOf(dropped[0]));
      const auto sum = ResultsOf(AddOp(), NoAttributes(), {at[0], OperandOf(b)});
      auto norm =
          ResultsOf(LayerNormOp(), NormAttributes{a.epsilon}, {OperandOf(sum[0]), at[2], at[3]});
      norm[0] = CastTo(of_y, OperandOf(norm[0]));
      ASSERT_GE(fused.size(), 4u);
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_TRUE(fused[i].bytes == norm[i].bytes) << op->name << op_case.name << i;
      }
      EXPECT_TRUE(fused[3].bytes == sum[0].bytes) << op->name << op_case.name;
      if (op != &AddLayerNormAndCastOp()) continue;
      ASSERT_GE(fused.size(), 5u);
      EXPECT_TRUE(fused[4].bytes == CastTo(DType::kBF16, OperandOf(norm[0])).bytes) << op_case.name;
    }
  }
}

TEST(CudaCardOpsTest, ANormsGradientInASumHasTheBitsOfBothAndOfWhatIsMadeOfIt) {
  for (const OpDef* op : {&LayerNormGradientAddOp(), &LayerNormGradientAddCastOp(),
                          &LayerNormGradientAddDropoutOp(), &LayerNormGradientAddCastDropoutOp()}) {
    const DType made_in = op == &LayerNormGradientAddDropoutOp() ? DType::kF32 : DType::kBF16;
    for (const OpCase& op_case : CasesOf(*op)) {
      const std::vector<KernelOperand> at = OperandsOf(*op, op_case);
      const auto fused = ResultsOf(*op, op_case.attributes, at);
      const HostTensor dy = CastTo(DType::kF32, at[0]);
      const auto gradient = ResultsOf(LayerNormGradientOp(), NormAttributes(),
                                      {OperandOf(dy), at[1], at[2], at[3], at[4]});
      const auto sum = ResultsOf(AddOp(), NoAttributes(), {at[5], OperandOf(gradient[0])});
      ASSERT_FALSE(fused.empty());
      EXPECT_TRUE(fused[0].bytes == sum[0].bytes) << op->name << op_case.name;
      if (op->outputs.size() == 1) continue;
      HostTensor made = CastTo(made_in, OperandOf(sum[0]));
      if (const auto* const a = std::get_if<AddNormAttributes>(&op_case.attributes)) {
        made = ResultsOf(DropoutOp(), DropoutAttributes{a->rate, a->key}, {OperandOf(made)})[0];
      }
      EXPECT_TRUE(fused[1].bytes == made.bytes) << op->name << op_case.name;
    }
  }
}

// And the norm that is made again has the bits of the first one, which has the statistics from.
TEST(CudaCardOpsTest, GradientsOfANormsParametersHaveTheBitsOfACastBefore) {
  for (const OpDef* op :
       {&CastLayerNormParameterGradientOp(), &CastLayerNormParameterGradientAndValueOp()}) {
    for (const OpCase& op_case : CasesOf(*op)) {
      SCOPED_TRACE(op->name + op_case.name);
      std::vector<KernelOperand> at = OperandsOf(*op, op_case);
      const bool again = at.size() == 6;
      HostTensor y;
      if (again) {
        const auto norm = ResultsOf(LayerNormOp(), NormAttributes(), {at[1], at[4], at[5]});
        y = CastTo(DType::kBF16, OperandOf(norm[0]));
        at[2] = OperandOf(norm[1]), at[3] = OperandOf(norm[2]);
      }
      const auto fused = ResultsOf(*op, op_case.attributes, at);
      const HostTensor dy = CastTo(DType::kF32, at[0]);
      const auto apart = ResultsOf(LayerNormParameterGradientOp(), NoAttributes(),
                                   {OperandOf(dy), at[1], at[2], at[3]});
      ASSERT_GE(fused.size(), 3u);
      EXPECT_TRUE(fused[0].bytes == apart[0].bytes);
      EXPECT_TRUE(fused[1].bytes == apart[1].bytes);
      EXPECT_TRUE(!again || fused[2].bytes == y.bytes);
    }
  }
}

}  // namespace
}  // namespace sluice
