// An index rule says which SBP signatures an op has: an equation over factors, the sets of inputs
// in which the op is linear, and how the factors that vanish are reduced.
//   "...mk,kn->...mn" linear {0},{1}
// "..." is any number of shared leading dimensions. Splitting a lowercase factor makes every tensor
// that has it S there, an input that lacks it B, an output that lacks it P. A linear set of inputs
// in P gives outputs in P. An uppercase factor, a digit 1 (a dimension of size 1) and a dimension
// of size 1 are never split. That gives all six rows of the paper's table of matmul.
#ifndef SLUICE_FRAMEWORK_SBP_INDEX_RULE_H_
#define SLUICE_FRAMEWORK_SBP_INDEX_RULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/sbp/nd_sbp.h"

namespace sluice {

// For one mesh axis; axes are independent.
struct Signature {
  // What is split: "" for all B, "P" for a linear set in P, otherwise the factor; the dimensions
  // under "..." are called "0", "1", ... from the left.
  std::string factor;
  std::vector<Sbp> inputs, outputs;
  // The factor is summed over, and no operand names its positions or counts on their order: the sum
  // is the same, but for rounding, if all operands that have it are permuted alike along it.
  bool any_order = false;
  friend bool operator==(const Signature&, const Signature&) = default;
};

std::string ToString(const Signature& signature);  // "S0,B->S0"

// The factor of each dimension of every tensor: a letter, "0", "1", .. under "...", and kOneFactor
// for a written 1.
struct TensorFactors {
  std::vector<std::vector<std::string>> inputs, outputs;
};
constexpr char kOneFactor[] = "#";

struct IndexRule {
  // `equation` as above; `linear` lists sets of input indices; `contracted` is the reduction of
  // factors that no output has (kNone: such factors cannot be split).
  static absl::StatusOr<IndexRule> Parse(absl::string_view equation,
                                         std::vector<std::vector<int>> linear = {},
                                         Reduction contracted = Reduction::kSum);
  // The signatures along an axis of `shards` shards: all B first, then factors in alphabetic order,
  // then the linear sets. `inputs` gives ranks and sizes; a factor is split only if the extent is
  // above 1. Errors: ranks or extents that do not fit the equation.
  absl::StatusOr<std::vector<Signature>> Signatures(absl::Span<const Shape> inputs,
                                                    absl::Span<const Shape> outputs,
                                                    int64_t shards) const;

  // Errors: as above.
  absl::StatusOr<TensorFactors> Factors(absl::Span<const Shape> inputs,
                                        absl::Span<const Shape> outputs) const;

  std::string equation;
  std::vector<std::string> input_factors, output_factors;  // "..." kept in place
  std::vector<std::vector<int>> linear;
  Reduction contracted = Reduction::kSum;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_SBP_INDEX_RULE_H_
