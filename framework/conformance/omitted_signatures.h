// The search for what an op's rule leaves out: every layout of the inputs along one axis is tried,
// and every layout of the outputs that then comes out right.
#ifndef SLUICE_FRAMEWORK_CONFORMANCE_OMITTED_SIGNATURES_H_
#define SLUICE_FRAMEWORK_CONFORMANCE_OMITTED_SIGNATURES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/conformance/shard_run.h"

namespace sluice {

struct SignatureSearch {
  int64_t candidates = 0;  // layouts of all inputs that were looked at
  int64_t runs = 0;        // those whose shapes fit, so that the reference implementation could run
  std::vector<Signature> valid;    // right for all tried numbers of shards
  std::vector<Signature> omitted;  // valid, and not listed by the op
  std::vector<Signature> unfound;  // listed by the op, and not found valid
};

// Inputs: B, S(dim) of more than one element, and P(sum) of float inputs that are not updated.
// Outputs: B, S(dim), P(sum), P(max). What holds for trivial reasons is left out: all B, and P(max)
// of values that are all equal. Every signature is right for 2 shards and for 3.
absl::StatusOr<SignatureSearch> SearchSignatures(const OpDef& op, const OpCase& op_case);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_CONFORMANCE_OMITTED_SIGNATURES_H_
