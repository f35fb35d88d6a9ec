// Parity of models on CUDA devices, in a test of Googletest: on the emulation, or with
// --config=cuda on cards. For tests. One thread.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_PARITY_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_PARITY_H_

#include <cstdint>

#include "framework/testing/training_parity.h"

namespace sluice {

// The case, on CUDA devices unless its mesh names kinds, must train as `one`, a case of CPUs, does:
// some steps of the free run, and each step of the lockstep. Accesses are not checked.
void ExpectCudaParity(const TrainingSetting& setting, const ParityCase& of, const ParityCase& one);

// The case on CUDA devices must give the same bits in two orders of streams, blocks and threads,
// and in both every access must be allowed, of what is written, and in order.
void ExpectCudaOrder(const TrainingSetting& setting, const ParityCase& of, int64_t steps);

// Three steps of the case on CUDA devices must give the same bits with CUDA graphs and without, in
// two orders, and by fewer launches in the last step, where all that can be replayed is. `checks`:
// accesses where there are graphs, as above.
void ExpectCudaGraphs(const TrainingSetting& setting, const ParityCase& of, bool checks);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_PARITY_H_
