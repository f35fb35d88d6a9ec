#include "framework/testing/cuda_emulation/cublaslt_algorithm.h"

#include <algorithm>

namespace sluice::cuda_emulation {
namespace {

constexpr uint64_t kMark = 0x5355426c61734c74;  // the first word of every algorithm of ours

// Sums that are worth cutting: long ones, of which there are few.
constexpr int64_t kLongDepth = 512, kFewElements = 128 * 128, kDepthOfSplit = 256, kMostSplits = 4;

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

uint64_t MixLayout(uint64_t hash, const cublasLtMatrixLayoutOpaque_t& x) {
  for (const uint64_t value : {uint64_t{x.type}, static_cast<uint64_t>(x.order), x.rows, x.cols,
                               static_cast<uint64_t>(x.ld), static_cast<uint64_t>(x.batch_count),
                               static_cast<uint64_t>(x.batch_stride)}) {
    hash = Mix(hash, value);
  }
  return hash;
}

// The largest power of two up to 256 that divides an address.
uint32_t AlignmentOf(const void* address) {
  uint32_t alignment = 256;
  while (!IsAligned(address, alignment)) alignment /= 2;
  return alignment;
}

// How operands are multiplied: bf16 by tensor cores, f32 one by one, or rounded to TF32.
MatmulAlgorithm WholeSums(const MatmulProblem& p) {
  MatmulAlgorithm algorithm;
  algorithm.implementation = CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_32F;
  if (p.a.type == CUDA_R_16BF) {
    algorithm.id = 66;
    algorithm.implementation |=
        CUBLASLT_NUMERICAL_IMPL_FLAGS_HMMA | CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16BF;
  } else if (p.matmul.compute_type == CUBLAS_COMPUTE_32F_FAST_TF32) {
    algorithm.id = 21;
    algorithm.implementation |=
        CUBLASLT_NUMERICAL_IMPL_FLAGS_HMMA | CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_TF32;
  } else {
    algorithm.id = 1;
    algorithm.implementation |=
        CUBLASLT_NUMERICAL_IMPL_FLAGS_FMA | CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_32F;
  }
  return algorithm;
}

// header, IMPL_MASK: of each kind of flags the mask must allow what the algorithm has.
bool Allows(uint64_t mask, uint64_t implementation) { return (implementation & ~mask) == 0; }

}  // namespace

void MatmulAlgorithm::Pack(cublasLtMatmulAlgo_t* words) const {
  words->data[0] = kMark;
  words->data[1] = static_cast<uint64_t>(id) | static_cast<uint64_t>(splits) << 32;
  words->data[2] = implementation;
  words->data[3] = workspace;
  words->data[4] = fingerprint;
  words->data[5] = static_cast<uint64_t>(scheme) | static_cast<uint64_t>(capability) << 32;
  words->data[6] = words->data[7] = 0;
  for (int i = 0; i < 4; ++i) words->data[6] |= static_cast<uint64_t>(alignment[i]) << 16 * i;
  words->data[7] = static_cast<uint64_t>(bias_alignment) | static_cast<uint64_t>(aux_alignment)
                                                               << 32;
}

bool MatmulAlgorithm::Unpack(const cublasLtMatmulAlgo_t& words, MatmulAlgorithm* algorithm) {
  if (words.data[0] != kMark) return false;
  algorithm->id = static_cast<int32_t>(words.data[1]);
  algorithm->splits = static_cast<int32_t>(words.data[1] >> 32);
  algorithm->implementation = words.data[2];
  algorithm->workspace = words.data[3];
  algorithm->fingerprint = words.data[4];
  algorithm->scheme = static_cast<uint32_t>(words.data[5]);
  algorithm->capability = static_cast<int32_t>(words.data[5] >> 32);
  for (int i = 0; i < 4; ++i) algorithm->alignment[i] = words.data[6] >> 16 * i & 0xffff;
  algorithm->bias_alignment = static_cast<uint32_t>(words.data[7]);
  algorithm->aux_alignment = static_cast<uint32_t>(words.data[7] >> 32);
  return true;
}

uint64_t FingerprintOf(const MatmulProblem& p) {
  uint64_t hash = 0;
  for (const cublasLtMatrixLayoutOpaque_t* x : {&p.a, &p.b, &p.c, &p.d}) hash = MixLayout(hash, *x);
  const cublasLtMatmulDescOpaque_t& m = p.matmul;
  for (const int64_t value :
       {int64_t{m.compute_type}, int64_t{m.scale_type}, int64_t{m.transpose_a},
        int64_t{m.transpose_b}, int64_t{m.epilogue}, m.bias_batch_stride, m.aux_ld,
        m.aux_batch_stride, int64_t{p.aux_type()}, int64_t{p.bias_type()}}) {
    hash = Mix(hash, static_cast<uint64_t>(value));
  }
  return hash;
}

std::vector<MatmulAlgorithm> ChooseAlgorithms(const MatmulProblem& problem,
                                              const cublasLtMatmulPreferenceOpaque_t& preference,
                                              int capability) {
  MatmulAlgorithm whole = WholeSums(problem);
  if (!Allows(preference.implementation_mask, whole.implementation)) return {};
  whole.fingerprint = FingerprintOf(problem);
  whole.capability = capability;
  std::copy(preference.alignment, preference.alignment + 4, whole.alignment);
  const Epilogue& epilogue = *FindEpilogue(problem.matmul.epilogue);
  // report, PyTorch pull request 194497: no preference says the alignment of the bias, which the
  // kernel counts on as the heuristic saw it.
  if (epilogue.bias != BiasUse::kNone) whole.bias_alignment = AlignmentOf(problem.matmul.bias);
  if (epilogue.aux != AuxUse::kNone) whole.aux_alignment = AlignmentOf(problem.matmul.aux);

  std::vector<MatmulAlgorithm> chosen;
  const int64_t elements = problem.rows() * problem.columns() * problem.d.batch_count;
  if (problem.depth() >= kLongDepth && elements <= kFewElements) {
    MatmulAlgorithm split = whole;
    split.splits = static_cast<int32_t>(std::min(kMostSplits, problem.depth() / kDepthOfSplit));
    const uint64_t parts = elements * split.splits;
    // header, cublasLtReductionScheme_t: what needs the least memory is the fastest.
    for (const auto& [scheme, workspace] :
         {std::pair<uint32_t, uint64_t>{CUBLASLT_REDUCTION_SCHEME_INPLACE, 256},
          {CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE, parts * BytesOfType(problem.d.type)},
          {CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, parts * sizeof(float)}}) {
      if ((preference.reduction_scheme_mask & scheme) == 0) continue;
      if (workspace > preference.max_workspace_bytes) continue;
      split.scheme = scheme;
      split.workspace = workspace;
      chosen.push_back(split);
    }
  }
  chosen.push_back(whole);
  return chosen;
}

}  // namespace sluice::cuda_emulation
