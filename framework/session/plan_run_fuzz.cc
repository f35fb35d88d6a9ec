// Bytes of a plan: what validates and is small runs two steps on devices of a CPU and on ones
// without memory, fed with tensors and with rows of a data set.
#include <cstddef>
#include <cstdint>

#include "framework/plan/plan.pb.h"
#include "framework/plan/validate.h"
#include "framework/session/plan_trial.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::plan::Plan plan;
  if (!plan.ParseFromArray(data, static_cast<int>(size))) return 0;
  if (!sluice::ValidatePlan(plan).ok() || !sluice::IsSmall(plan)) return 0;
  for (const auto kind : {sluice::plan::DEVICE_CPU, sluice::plan::DEVICE_NULL}) {
    for (const auto fed : {sluice::Fed::kTensors, sluice::Fed::kRows}) {
      sluice::TryPlan(plan, kind, fed).IgnoreError();
    }
  }
  return 0;
}
