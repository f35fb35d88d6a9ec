// For tests: a plan written by hand, and kernels for it. Each of n devices feeds rows of x in two
// micro-batches, sums their columns, adds the sums of all devices and adds that to its replica of
// w, which is fetched. After every step w has grown by the column sums of x.
#ifndef SLUICE_FRAMEWORK_RUNTIME_TEST_PLAN_H_
#define SLUICE_FRAMEWORK_RUNTIME_TEST_PLAN_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/kernels/kernel.h"
#include "framework/plan/plan.pb.h"
#include "framework/tensor/array.h"

namespace sluice {

constexpr int64_t kTestColumns = 3;
constexpr int32_t kTestMicroBatches = 2;

// x has devices * kTestMicroBatches rows. Programs: "train", and "eval", which fetches w.
plan::Plan TestPlan(int devices);
int64_t TestInstructionsPerStep(int devices);  // of program "train"
// The rows of x at a step; small integers, so that every sum is exact.
HostTensor TestFeed(int devices, int64_t step);
std::vector<float> ColumnSums(const HostTensor& x);

// Kernels of the plan's ops "column_sums", "sum", "grow". Those of "grow" also try, by the scope:
// "fail at 3", "nan at 3": at that step; "spin": to take about 1 ms.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareTestKernel(const KernelSpec& spec);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_RUNTIME_TEST_PLAN_H_
