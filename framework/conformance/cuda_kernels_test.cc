// Every CUDA kernel does what its op's reference implementation says, and gives the bits of the
// CPU's kernel but where sums are in another order. On the emulation every access is checked, too.
#include <algorithm>
#include <iostream>
#include <string>

#include "absl/strings/match.h"
#include "framework/conformance/cuda_run.h"
#include "framework/conformance/kernel_checker.h"
#include "framework/kernels/cuda/support.h"
#include "framework/ops/all_ops.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// Ops whose sums CUDA kernels make in an order of their own.
bool HasOwnOrder(const std::string& op) {
  static const auto* const ops = new std::vector<std::string>{
      "attention",
      "attention_gradient",
      "conv2d",
      "conv2d_input_gradient",
      "conv2d_weight_gradient",
      "padded_attention",
      "padded_attention_gradient",
  };
  return absl::StartsWith(op, "matmul") || std::count(ops->begin(), ops->end(), op) > 0;
}

// Whether a CPU has no kernel of it.
bool IsCardOp(const std::string& op) {
  return std::count(CardOps().begin(), CardOps().end(), FindOp(op)) > 0;
}

std::string BitsUnlessOwnOrder(const KernelCall& call, const KernelRun& run) {
  return HasOwnOrder(call.op) || IsCardOp(call.op) ? "" : BitsOfCpu(call, run);
}

const KernelChecker& Checker() {
  static const auto* const checker =
      new KernelChecker(DeviceKind::kCuda, RunOnCuda, BitsUnlessOwnOrder);
  return *checker;
}

// Ops that CUDA devices have kernels for.
std::vector<const OpDef*> Ops() {
  std::vector<const OpDef*> ops;
  for (const KernelEntry& entry : CudaKernels()) {
    if (const OpDef* const op = FindOp(entry.op); op != nullptr) ops.push_back(op);
  }
  return ops;
}

int64_t KernelsOf(const OpDef& op) {
  const auto entries = CudaKernels();
  return std::count_if(entries.begin(), entries.end(),
                       [&op](const KernelEntry& entry) { return entry.op == op.name; });
}

TEST(CudaKernelsTest, TheListNamesEveryOp) {
  for (const auto ops : {AllOps(), CardOps()}) {
    for (const OpDef* op : ops) {
      EXPECT_EQ(KernelsOf(*op), 1)
          << op->name << ": kernels/cuda/kernel_list.inc is to have one line of it";
      EXPECT_FALSE(op->cases.empty()) << op->name << " has no cases, so nothing tests its kernel";
    }
  }
  for (const KernelEntry& entry : CudaKernels()) {
    const bool instruction = entry.op == "copy" || entry.op == "fold" || entry.op == "accumulate";
    EXPECT_TRUE(instruction || FindOp(entry.op) != nullptr)
        << entry.op << " of kernels/cuda/kernel_list.inc is no op";
  }
}

TEST(CudaKernelsTest, AgreeOnTheWholeAndOnParts) {
  int tried = 0;
  for (const OpDef* op : Ops()) {
    for (const OpCase& op_case : op->cases) {
      EXPECT_EQ(Checker().CheckCase(*op, op_case, {1, 2, 3, 9}, &tried), "");
    }
  }
  std::cout << tried << " tried\n";
}

// No pack of sixteen bytes begins where these operands do.
TEST(CudaKernelsTest, OperandsMayBeginAtAnyEightBytes) {
  const auto run = [](KernelCall call) {
    call.alignment = 8;
    return RunOnCuda(call);
  };
  const KernelChecker checker(DeviceKind::kCuda, run, BitsUnlessOwnOrder);
  for (const OpDef* op : Ops()) {
    for (const OpCase& op_case : op->cases) EXPECT_EQ(checker.CheckWhole(*op, op_case, 1), "");
    for (const OpCase& rows : RowCases(*op, {32})) EXPECT_EQ(checker.CheckWhole(*op, rows, 1), "");
  }
}

TEST(CudaKernelsTest, OpsThatSaySoComputeInBf16) {
  int tried = 0;
  for (const OpDef* op : Ops()) {
    if (op->computes_in == ComputesIn::kF32) continue;
    for (const OpCase& f32 : op->cases) {
      EXPECT_EQ(Checker().CheckCase(*op, InBf16(*op, f32), {1, 3}, &tried), "");
    }
  }
  std::cout << tried << " tried\n";
}

// Each twice, in other orders of threads, blocks and warps.
TEST(CudaKernelsTest, RowsOfEveryLengthAgree) {
  int tried = 0;
  for (const OpDef* op : Ops()) {
    // Scores of longer heads, whose scale a case fixes, have exponentials that are no floats.
    const std::vector<int64_t> lengths = HasOwnOrder(op->name)
                                             ? std::vector<int64_t>{1, 31, 32, 33, 100}
                                             : std::vector<int64_t>{1, 31, 32, 33, 100, 1025};
    for (const OpCase& rows : RowCases(*op, lengths)) {
      ++tried;
      EXPECT_EQ(Checker().CheckWhole(*op, rows, 2), "");
    }
  }
  std::cout << tried << " tried\n";
}

TEST(CudaKernelsTest, LargeShapesAgree) {
  for (const OpDef* op : Ops()) {
    for (const OpCase& large : op->large_cases) {
      EXPECT_EQ(Checker().CheckWhole(*op, large, 2), "");
      if (op->computes_in == ComputesIn::kF32) continue;
      EXPECT_EQ(Checker().CheckWhole(*op, InBf16(*op, large), 1), "");
    }
  }
}

TEST(CudaKernelsTest, NansComeOut) {
  for (const OpDef* op : Ops()) {
    for (const OpCase& op_case : NanCases(*op)) EXPECT_EQ(Checker().CheckNan(*op, op_case), "");
  }
}

}  // namespace
}  // namespace sluice
