// What tests may ask of the emulated cuBLASLt beyond its own functions.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUBLASLT_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUBLASLT_H_

#include <string>

namespace sluice::cuda_emulation {

// Why the calling thread's last heuristic or product that was refused was: the rule, in words.
const std::string& LastCublasLtRefusal();

// Until told otherwise, no algorithm has an epilogue, as another card's or version's may not. Any
// thread.
void SetCublasLtEpilogues(bool there_are);

}  // namespace sluice::cuda_emulation

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUBLASLT_H_
