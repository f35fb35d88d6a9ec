// A Fence stands for work that a device's stream has been given and may not have done yet. It is a
// number, so that messages carry it and nobody needs to look at it; streams alone know what it
// means (device/stream.h).
#ifndef SLUICE_FRAMEWORK_BASE_FENCE_H_
#define SLUICE_FRAMEWORK_BASE_FENCE_H_

#include <cstdint>

namespace sluice {

// What another stream can wait for; 0: it is done already.
using Fence = uint64_t;

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_BASE_FENCE_H_
