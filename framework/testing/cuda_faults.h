// Mistakes planted one at a time into a compiled program that trains on CUDA devices: into its
// plan, the messages of its actors, its kernels, its calls of the runtime and of cuBLASLt. Each has
// to be found, by the plan's validation or by the emulation, and to be named. For tests, on the
// emulation alone, in a test of Googletest. One thread.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_FAULTS_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_FAULTS_H_

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "framework/testing/training_parity.h"

namespace sluice {

struct CudaFault {
  std::string name;  // a word
  // What may be said of it, of which one is enough: which of several consequences is met first is
  // chance.
  std::vector<std::string> found;
  // Plants it, from the start of the session on. An error: there is nothing to plant it in.
  std::function<absl::Status(plan::Plan* plan, RuntimeOptions* options)> plant;
  // How often it has happened; null: the plan has it.
  std::function<int64_t()> happened;
  friend void PrintTo(const CudaFault& fault, std::ostream* out) { *out << fault.name; }
};

// All of them but what needs long products, whose algorithms alone have workspaces.
std::vector<CudaFault> CudaFaults();
std::vector<CudaFault> WorkspaceFaults();

// The case, which names no devices, trains for four steps on CUDA devices, accesses checked:
// nothing is found. With the fault, it is found and named.
void ExpectNoCudaFault(const TrainingSetting& setting, const ParityCase& of);
void ExpectCudaFaultFound(const TrainingSetting& setting, const ParityCase& of,
                          const CudaFault& fault);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_FAULTS_H_
