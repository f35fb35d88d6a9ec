// What the writes of a phase say of bytes and places. Internal to lowering; pure.
#ifndef SLUICE_FRAMEWORK_COMPILER_BOXING_WRITES_H_
#define SLUICE_FRAMEWORK_COMPILER_BOXING_WRITES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "framework/sbp/boxing_phase.h"

namespace sluice {

// Of the first element of a box within the row-major array of another.
int64_t FlatOffset(const Box& outer, const Box& inner);

// Where a box starts in a buffer of packed pieces, and the strides of the piece it lies in.
std::pair<int64_t, Shape> Locate(const std::vector<Box>& pieces, const Box& box);

int64_t Elements(const std::vector<Box>& pieces);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_BOXING_WRITES_H_
