// Every CUDA kernel does what its op's reference implementation says, and gives the bits of the
// CPU's kernel but where sums are in another order. On the emulation every access is checked, too.
#include <algorithm>
#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "framework/conformance/kernel_checker.h"
#include "framework/conformance/kernel_run.h"
#include "framework/kernels/cuda/support.h"
#include "framework/ops/all_ops.h"
#include "framework/testing/cuda_emulation/emulation.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

absl::StatusOr<KernelRun> RunOnCuda(const KernelCall& call) {
  // Another order of threads and blocks for each run.
  cuda_emulation::Reset(static_cast<uint64_t>(call.threads));
  absl::StatusOr<KernelRun> run = RunKernelOn(CudaSupport(), DeviceKind::kCuda, call);
  for (const std::string& error : cuda_emulation::Errors()) {
    return absl::InternalError(absl::StrCat("emulation: ", error));
  }
  return run;
}

// Ops whose sums CUDA kernels make in an order of their own.
bool HasOwnOrder(const std::string& op) {
  static const auto* const ops = new std::vector<std::string>{
      "matmul",
  };
  return std::count(ops->begin(), ops->end(), op) > 0;
}

std::string BitsOfCpu(const KernelCall& call, const KernelRun& run) {
  if (HasOwnOrder(call.op)) return "";
  const absl::StatusOr<KernelRun> cpu = RunKernel(call);
  if (!cpu.ok()) return cpu.status().ToString();
  for (size_t i = 0; i < run.bytes.size(); ++i) {
    if (run.bytes[i].bytes == cpu->bytes[i].bytes) continue;
    return absl::StrCat(call.op, ": operand ", i, " has other bits than on a CPU");
  }
  return "";
}

const KernelChecker& Checker() {
  static const auto* const checker = new KernelChecker(RunOnCuda, BitsOfCpu);
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

TEST(CudaKernelsTest, AgreeOnTheWholeAndOnParts) {
  int tried = 0;
  for (const OpDef* op : Ops()) {
    for (const OpCase& op_case : op->cases) {
      EXPECT_EQ(Checker().CheckCase(*op, op_case, {1, 2, 3, 9}, &tried), "");
    }
  }
  std::cout << tried << " tried\n";
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
    for (const OpCase& rows : RowCases(*op, {1, 31, 32, 33, 100, 1025})) {
      ++tried;
      EXPECT_EQ(Checker().CheckWhole(*op, rows, 2), "");
    }
  }
  std::cout << tried << " tried\n";
}

TEST(CudaKernelsTest, NansComeOut) {
  for (const OpDef* op : Ops()) {
    for (const OpCase& op_case : NanCases(*op)) EXPECT_EQ(Checker().CheckNan(*op, op_case), "");
  }
}

}  // namespace
}  // namespace sluice
