// Pictures in another size: bilinear with antialiasing, as PIL and torchvision's antialias=True
// have it (a triangle as wide as a pixel of the larger of the two sizes), but in f32 and rounded
// once, where PIL rounds to 8 bits between its two passes: at most 1 of 255 apart. One thread a
// Resampler.
#ifndef SLUICE_FRAMEWORK_DATA_RESAMPLE_H_
#define SLUICE_FRAMEWORK_DATA_RESAMPLE_H_

#include <cstdint>
#include <vector>

#include "framework/data/decode_image.h"
#include "framework/tensor/shape.h"

namespace sluice {

// Along one side: the pixels `from` of a picture become `whole` pixels, of which `kept` are wanted.
struct ResampledSide {
  Range from;
  int64_t whole = 0;
  Range kept;
};

// Keeps what it allocates from one picture to the next.
class Resampler {
 public:
  // Gives [kept rows, kept columns, 3], the caller's to change until the next call. No pixel
  // outside of the ranges counts. REQUIRES: `from` lies in the picture and `kept` in [0, whole);
  // none is empty.
  std::vector<float>& Run(const RgbImage& image, const ResampledSide& rows,
                          const ResampledSide& columns);

 private:
  // What each kept pixel is made of: `count` pixels from `first` on, by weights that add up to 1.
  struct Taps {
    int64_t first = 0, count = 0, weights = 0;  // where its weights begin
  };
  static void FindTaps(const ResampledSide& side, std::vector<Taps>* taps,
                       std::vector<float>* weights);

  std::vector<Taps> row_taps_, column_taps_;
  std::vector<float> row_weights_, column_weights_;
  std::vector<float> row_, result_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_RESAMPLE_H_
