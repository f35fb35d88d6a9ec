// What a model sees of a photograph: one of its size, cut out of one of any size. To train, a
// random part, mirrored and in other colors, as torchvision's RandomResizedCrop,
// RandomHorizontalFlip and ColorJitter draw it; to evaluate, the middle, as its Resize and
// CenterCrop give it. A function of (seed, position). One thread a PhotoViewer.
#ifndef SLUICE_FRAMEWORK_DATA_PHOTO_VIEW_H_
#define SLUICE_FRAMEWORK_DATA_PHOTO_VIEW_H_

#include <cstdint>
#include <vector>

#include "framework/data/decode_image.h"
#include "framework/data/resample.h"

namespace sluice {

struct PhotoView {
  int64_t height = 224, width = 224;
  bool random = false;  // to train; what follows is for that

  // The part's share of the picture's area, and its width over its height.
  double least_area = 0.08, most_area = 1;
  double least_ratio = 3.0 / 4, most_ratio = 4.0 / 3;
  bool flip = true;
  // Each draws a factor from 1 - x to 1 + x; their order is drawn, too. Hue stays.
  double brightness = 0, contrast = 0, saturation = 0;
  uint64_t seed = 1;
};

// Of a picture: which rows and columns.
struct PhotoCrop {
  Range rows, columns;
};

// The part that is seen at a position of the order.
PhotoCrop DrawCrop(const PhotoView& view, const ImageSize& size, int64_t position);

// Keeps what it allocates from one picture to the next.
class PhotoViewer {
 public:
  // Writes [height, width, 3].
  void Show(const PhotoView& view, const RgbImage& image, int64_t position, uint8_t* to);

 private:
  Resampler resampler_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_PHOTO_VIEW_H_
