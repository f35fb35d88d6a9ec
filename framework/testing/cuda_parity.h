// Parity of models on CUDA devices, in a test of Googletest: on the emulation, or with
// --config=cuda on cards. For tests. One thread.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_PARITY_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_PARITY_H_

#include <cstdint>

#include "framework/testing/training_parity.h"

namespace sluice {

// Who adds up what devices have: NCCL, where each device has a card of its own, or folds in the
// CPU's order.
enum class CudaSums { kOfNccl, kReproducible };

// The case, on CUDA devices unless its mesh names kinds, must train as `one`, a case of CPUs, does:
// some steps of the free run, and each step of the lockstep. Accesses are not checked.
void ExpectCudaParity(const TrainingSetting& setting, const ParityCase& of, const ParityCase& one,
                      CudaSums sums = CudaSums::kOfNccl);

// The case on CUDA devices must give the same bits in two orders of streams, blocks and threads,
// and in both every access must be allowed, of what is written, and in order.
void ExpectCudaOrder(const TrainingSetting& setting, const ParityCase& of, int64_t steps,
                     CudaSums sums = CudaSums::kOfNccl);

// Three steps of the case on CUDA devices must give the same bits with CUDA graphs and without, in
// two orders, and by fewer launches in the last step, where all that can be replayed is. `checks`:
// accesses where there are graphs, as above.
void ExpectCudaGraphs(const TrainingSetting& setting, const ParityCase& of, bool checks);

// What the case's devices allocate on cards, in a step and before it, is what the plan says that
// they need, but for the number of the step that each stream has. On the emulation: a card's
// libraries take what they like.
void ExpectCudaMemory(const TrainingSetting& setting, ParityCase of);

// The case on CUDA devices must give the same bits with its launches fused and apart. A step must
// launch so many kernels of ours, where somebody counts; those of libraries are not among them.
void ExpectCudaFusion(const TrainingSetting& setting, ParityCase of, int64_t fused, int64_t apart);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_PARITY_H_
