// The ways in which the emulated cuBLASLt computes a product, and the heuristic that offers them.
// There are few of them, made so that a caller who asks wrongly sees it in a result: operands
// rounded to TF32, parts of a long sum rounded to the type of the result, an alignment promised
// that does not hold. Pure; any thread.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUBLASLT_ALGORITHM_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUBLASLT_ALGORITHM_H_

#include <cublasLt.h>

#include <cstdint>
#include <vector>

#include "framework/testing/cuda_emulation/cublaslt_descriptors.h"
#include "framework/testing/cuda_emulation/cublaslt_rules.h"

namespace sluice::cuda_emulation {

struct MatmulAlgorithm {
  int32_t id = 0;
  int32_t splits = 1;  // parts of the depth, summed apart and then added in order
  uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_NONE;  // how
  uint64_t implementation = 0;                       // CUBLASLT_NUMERICAL_IMPL_FLAGS_
  uint64_t workspace = 0;                            // bytes
  uint32_t alignment[4] = {};                        // of A, B, C, D that it counts on, in bytes
  uint32_t bias_alignment = 0, aux_alignment = 0;    // that it counts on; 0: has none
  uint64_t fingerprint = 0;                          // of the problem that it was chosen for
  int32_t capability = 0;                            // of the device that it was chosen for

  // To the library's opaque words, and back; false if they are of no algorithm.
  void Pack(cublasLtMatmulAlgo_t* words) const;
  static bool Unpack(const cublasLtMatmulAlgo_t& words, MatmulAlgorithm* algorithm);
};

// Of all that an algorithm depends on; pointers, of which only the alignment matters, are not in
// it.
uint64_t FingerprintOf(const MatmulProblem& problem);

// Fastest first; none if the preference allows none. REQUIRES: CheckProblem has nothing to say.
std::vector<MatmulAlgorithm> ChooseAlgorithms(const MatmulProblem& problem,
                                              const cublasLtMatmulPreferenceOpaque_t& preference,
                                              int capability);

}  // namespace sluice::cuda_emulation

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUBLASLT_ALGORITHM_H_
