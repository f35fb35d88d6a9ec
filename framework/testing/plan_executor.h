// Runs a whole plan in one thread, with real memory and kernels, under a seeded random interleaving
// of instructions and messages. For tests: what it returns must not depend on the seed. It counts
// no tokens; the actors do. Memory starts as NaN, and every slot becomes NaN again when it is
// taken, so that a byte read before it is written shows in the results. One thread; owns plan and
// memory.
#ifndef SLUICE_FRAMEWORK_TESTING_PLAN_EXECUTOR_H_
#define SLUICE_FRAMEWORK_TESTING_PLAN_EXECUTOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/kernels/kernel.h"
#include "framework/plan/plan.pb.h"
#include "framework/tensor/array.h"

namespace sluice {

using KernelFactory = std::function<absl::StatusOr<std::unique_ptr<Kernel>>(const KernelSpec&)>;
using HostTensorMap = std::map<std::string, HostTensor, std::less<>>;

struct PlanExecutorOptions {
  uint64_t interleaving = 0;  // seed of the order
  uint64_t seed = 0;          // of initial values and random ops
  KernelFactory prepare;      // empty: PrepareReferenceKernel
};

class PlanExecutor {
 public:
  // Errors: a plan that refers to nothing, kernels that cannot be prepared, variables of no init.
  static absl::StatusOr<std::unique_ptr<PlanExecutor>> Create(plan::Plan plan,
                                                              const PlanExecutorOptions& options);
  virtual ~PlanExecutor() = default;

  // Runs steps first_step, first_step + 1, .. of a program, one for each map of feeds, as far
  // overlapped as the plan allows. Results are by name of output.
  virtual absl::StatusOr<std::vector<HostTensorMap>> Steps(int program,
                                                           const std::vector<HostTensorMap>& feeds,
                                                           int64_t first_step) = 0;
  absl::StatusOr<HostTensorMap> Step(int program, const HostTensorMap& feeds, int64_t step);

  // A logical variable, put together from its shards, and back into all of them.
  virtual absl::StatusOr<HostTensor> Read(const std::string& variable) const = 0;
  virtual absl::Status Write(const std::string& variable, const HostTensor& value) = 0;
  // Shards of a variable that hold the same box must be equal in every bit.
  virtual absl::Status CheckReplicas() const = 0;
  virtual const plan::Plan& plan() const = 0;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_PLAN_EXECUTOR_H_
