#include "framework/kernels/cpu/vector.h"

#include <atomic>

namespace sluice::cpu {
namespace {

// Threads of a pool read it while a kernel runs; who sets it has none running.
std::atomic<const VectorTable*> asked{nullptr};

Isa Best() {
  for (const Isa isa : {Isa::kV4Bf16, Isa::kV4}) {
    if (Runs(isa)) return isa;
  }
  return Isa::kV3;
}

}  // namespace

bool Runs(Isa isa) {
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi2");
  if (isa == Isa::kV3) return v3;
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  return v4 && (isa == Isa::kV4 || __builtin_cpu_supports("avx512bf16"));
}

template <>
const FloatLoops<float>& VectorTable::of() const {
  return f32;
}
template <>
const FloatLoops<BFloat16>& VectorTable::of() const {
  return bf16;
}

#define SLUICE_TABLE_OF(level, level_of_pairs)                                                \
  {                                                                                           \
    {level::kElementwise, level::kActivation, level::kReduction, level::kCrossEntropy,        \
     level::kBatchNorm,   level::kChannel,    level::kPool,      level::kAttention},          \
        {level::kElementwiseBf16,  level::kActivationBf16,        level::kReductionBf16,      \
         level::kCrossEntropyBf16, level::kBatchNormBf16,         level::kChannelBf16,        \
         level::kPoolBf16,         level_of_pairs::kAttentionBf16},                           \
        level::kArithmetic, level::kNormalization, level::kOptimizer, level::kOptimizerAtIds, \
        level::kSortedIds, level::kSigmoidCrossEntropy, level::kCachedAttention,              \
        level::kBatchStatistics, level::kImage                                                \
  }

const VectorTable& VectorsOf(Isa isa) {
  static const VectorTable table_v3 = SLUICE_TABLE_OF(v3, v3);
  static const VectorTable table_v4 = SLUICE_TABLE_OF(v4, v4);
  static const VectorTable table_v4_bf16 = SLUICE_TABLE_OF(v4, v4_bf16);
  return isa == Isa::kV3 ? table_v3 : isa == Isa::kV4 ? table_v4 : table_v4_bf16;
}
#undef SLUICE_TABLE_OF

const VectorTable& Vectors() {
  static const VectorTable& best = VectorsOf(Best());
  const VectorTable* const other = asked.load(std::memory_order_acquire);
  return other != nullptr ? *other : best;
}

ScopedIsa::ScopedIsa(Isa isa) { asked.store(&VectorsOf(isa), std::memory_order_release); }
ScopedIsa::~ScopedIsa() { asked.store(nullptr, std::memory_order_release); }

}  // namespace sluice::cpu
