// Pictures that nobody took: for tests, and to measure steps without data. Each class is a wave of
// its own under noise, so that a network can tell them apart. Pure.
#ifndef SLUICE_FRAMEWORK_DATA_DRAWN_IMAGES_H_
#define SLUICE_FRAMEWORK_DATA_DRAWN_IMAGES_H_

#include <cstdint>

#include "framework/data/image_dataset.h"

namespace sluice {

// `count` pictures of a shape [height, width, channels], their classes in turn. The noise alone
// depends on the seed.
LabeledImages DrawImages(int64_t count, const Shape& shape, int64_t classes, uint64_t seed);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_DRAWN_IMAGES_H_
