// Whether kernels do what the reference implementations of their ops say, on any kind of device.
#ifndef SLUICE_FRAMEWORK_CONFORMANCE_KERNEL_CHECKER_H_
#define SLUICE_FRAMEWORK_CONFORMANCE_KERNEL_CHECKER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "framework/conformance/case_values.h"
#include "framework/conformance/kernel_run.h"
#include "framework/graph/op_def.h"

namespace sluice {

class KernelChecker {
 public:
  using Run = std::function<absl::StatusOr<KernelRun>(const KernelCall& call)>;
  // What else is to hold of a run; "" if it does.
  using Also = std::function<std::string(const KernelCall& call, const KernelRun& run)>;
  // `kind`: of the devices that it runs on.
  KernelChecker(DeviceKind kind, Run run, Also also)
      : kind_(kind), run_(std::move(run)), also_(std::move(also)) {}

  // The functions below say the first thing that is wrong, "" if nothing is.

  // A case on every shard of every signature, for each number of shards, named by offset and by
  // micro-batch. Adds the signatures tried to `tried`.
  std::string CheckCase(const OpDef& op, const OpCase& op_case,
                        absl::Span<const int64_t> shard_counts, int* tried) const;
  // A case as a whole, with one thread and then with more, which change no bits.
  std::string CheckWhole(const OpDef& op, const OpCase& op_case, int most_threads) const;
  // What a NaN in the last place of the first input touches is NaN; of ops of one input.
  std::string CheckNan(const OpDef& op, const OpCase& op_case) const;

 private:
  std::string CheckShard(const OpDef& op, const OpCase& op_case, std::vector<ShardArray> inputs,
                         std::vector<ShardArray> outputs, int64_t coordinate, bool by_micro) const;
  // Outputs that lie where an input lay have the bits of `run`, where they lay apart.
  std::string CheckInPlace(const OpDef& op, const KernelCall& call, const KernelRun& run) const;
  std::string CheckSignature(const OpDef& op, const OpCase& op_case, const CaseValues& values,
                             const Signature& signature, int64_t shards) const;

  const DeviceKind kind_;
  const Run run_;
  const Also also_;
};

// The case with its operands in bf16, but for statistics. What is computed is rounded once where it
// is written, to eight bits; of a fused op, what it is made of rounds as well.
OpCase InBf16(const OpDef& op, const OpCase& f32);
// Cases of the op whose rows have lengths that loops over vectors treat apart. What goes with the
// last dimension of the first input is what the index rule says; other extents stay, and so do
// attributes, where they suit.
std::vector<OpCase> RowCases(const OpDef& op, absl::Span<const int64_t> lengths);
// Of ops of one input that give floats.
std::vector<OpCase> NanCases(const OpDef& op);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_CONFORMANCE_KERNEL_CHECKER_H_
