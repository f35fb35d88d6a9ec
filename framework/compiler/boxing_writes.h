// What the writes of a boxing say of bytes and places. Internal to lowering; pure.
#ifndef SLUICE_FRAMEWORK_COMPILER_BOXING_WRITES_H_
#define SLUICE_FRAMEWORK_COMPILER_BOXING_WRITES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "framework/sbp/boxing.h"

namespace sluice {

// Of the first element of a box within the row-major array of another.
int64_t FlatOffset(const Box& outer, const Box& inner);

// Where a box starts in a buffer of packed pieces, and the strides of the piece it lies in.
std::pair<int64_t, Shape> Locate(const std::vector<Box>& pieces, const Box& box);

int64_t Elements(const BoxingBuffer& buffer);

// Where a written buffer lies in the one buffer that it is a contiguous run of, on the same device;
// -1 if there is no such buffer.
int64_t OffsetInPlace(const Boxing& boxing, const BoxingWrite& write);

// Bytes that a write reads and writes, and those of them that come from other devices.
std::pair<int64_t, int64_t> CountBytes(const Boxing& boxing, const BoxingWrite& write,
                                       int64_t element);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_BOXING_WRITES_H_
