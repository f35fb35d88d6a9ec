#include "framework/testing/cuda_parity.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "framework/base/status.h"
#include "framework/kernels/cuda/support.h"
#include "framework/testing/cuda_order.h"
#include "framework/testing/expect_parity.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// At most: a step of the emulation takes about a second.
constexpr int64_t kFreeSteps = 4;

ParityCase OnCuda(ParityCase of) {
  of.mesh += " @cuda";
  of.name += " on CUDA devices";
  of.cuda = &CudaSupport();
  of.bounds.free_steps = std::min(of.bounds.free_steps, kFreeSteps);
  return of;
}

// What some steps leave behind: their results, and all variables.
absl::StatusOr<std::vector<Fetches>> Train(const TrainingSetting& setting, const ParityCase& of,
                                           uint64_t seed, int64_t steps) {
  BeginCudaOrder(seed, /*checks=*/true);
  ASSIGN_OR_RETURN(const std::unique_ptr<ParityRun> run, ParityRun::Start(of, setting));
  std::vector<Fetches> record;
  for (int64_t step = 0; step < steps; ++step) {
    RETURN_IF_ERROR(run->Step(step).status());
    record.push_back(run->fetches());
  }
  ASSIGN_OR_RETURN(record.emplace_back(), run->ReadVariables());
  return record;
}

}  // namespace

void ExpectCudaParity(const TrainingSetting& setting, const ParityCase& of, const ParityCase& one) {
  BeginCudaOrder(/*seed=*/1, /*checks=*/false);
  ExpectParity(setting, OnCuda(of), one);
  EXPECT_THAT(TakeCudaErrors(), testing::IsEmpty());
}

void ExpectCudaOrder(const TrainingSetting& setting, const ParityCase& of, int64_t steps) {
  std::vector<Fetches> first;
  for (const uint64_t seed : {1, 2}) {
    const auto record = Train(setting, OnCuda(of), seed, steps);
    EXPECT_THAT(TakeCudaErrors(), testing::IsEmpty());
    ASSERT_TRUE(record.ok()) << record.status();
    if (seed == 1) first = *record;
    for (size_t n = 0; n < first.size(); ++n) {
      for (const auto& [name, tensor] : first[n]) {
        EXPECT_EQ((*record)[n].at(name).bytes, tensor.bytes) << name << " after " << n << " steps";
      }
    }
  }
}

}  // namespace sluice
