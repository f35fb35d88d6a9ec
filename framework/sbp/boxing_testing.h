// For tests of boxing: layouts in short, a machine of nodes, random shards.
#ifndef SLUICE_FRAMEWORK_SBP_BOXING_TESTING_H_
#define SLUICE_FRAMEWORK_SBP_BOXING_TESTING_H_

#include <random>
#include <string>
#include <vector>

#include "framework/machine/machine.h"
#include "framework/sbp/layout.h"

namespace sluice {

// A mesh of axes a, b, c over the devices 0:first, 0:first+1, ...
Mesh CellGridOf(const std::vector<int64_t>& sizes, int first = 0);

// Nodes of this many devices: what crosses between them costs more than what stays inside.
Machine TwoLevelMachine(int64_t devices_per_host);

// S0, S1, B, P(sum), P(max).
std::vector<Sbp> BoxingSymbols();

// At most one kind of P in both together: only such pairs can be boxed.
bool OneKind(const NdSbp& from, const NdSbp& to);

// Every NdSbp over the symbols with at most one kind of P that suits a tensor of this rank.
std::vector<NdSbp> AllNdSbps(const std::vector<Sbp>& symbols, size_t axes, int rank);

// Random shards: replicas agree bit for bit, partials differ, exponents are wide, so that another
// order of a sum shows; some values are NaN and, in sums, zeros of either sign.
std::vector<Array> RandomShards(const Layout& layout, const Shape& shape, std::mt19937_64* random);

// "data: S0 -> B of [4,4]: recipe" for messages.
std::string Describe(const Layout& from, const Layout& to, const Shape& shape);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_SBP_BOXING_TESTING_H_
