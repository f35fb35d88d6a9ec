// For tests: a plan of three ranks, written by hand. Ranks 0 and 1 have a device each and read from
// each other what each makes, two micro-batches a step, through registers of two slots; rank 2 has
// a device and nobody to read from. And kernels that do nothing.
#ifndef SLUICE_FRAMEWORK_RUNTIME_TEST_RANKS_H_
#define SLUICE_FRAMEWORK_RUNTIME_TEST_RANKS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "framework/kernels/kernel.h"
#include "framework/plan/plan.pb.h"

namespace sluice {

constexpr int32_t kTestRanks = 3;

plan::Plan TestPlanOfRank(int32_t rank, plan::DeviceKind kind);
absl::StatusOr<std::unique_ptr<Kernel>> PrepareNothing(const KernelSpec& spec);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_RUNTIME_TEST_RANKS_H_
