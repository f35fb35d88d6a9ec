// Pictures in memory as a data set: a sample is "images", u8 [height, width, channels], and its
// class "labels", i32 []. What is drawn for a picture each time that it is seen is a function of a
// seed and of its position in the order. Any thread, once made.
#ifndef SLUICE_FRAMEWORK_DATA_IMAGE_DATASET_H_
#define SLUICE_FRAMEWORK_DATA_IMAGE_DATASET_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/data/dataset.h"

namespace sluice {

// Pictures of one size, and the class of each.
struct LabeledImages {
  Shape shape;                  // of one: height, width, channels
  std::vector<uint8_t> pixels;  // picture after picture
  std::vector<int32_t> labels;
};

// How a picture differs each time that it is seen: not at all by default, as what is evaluated must
// be.
struct CropAndFlip {
  int64_t padding = 0;  // so many zeros on each side, out of which a picture of its size is cut
  bool flip = false;    // every other time left is right
  uint64_t seed = 1;
};

class ImageDataset : public Dataset {
 public:
  // Errors, naming `what` the pictures are: none, sizes that do not fit, a label below 0.
  static absl::StatusOr<ImageDataset> Create(absl::string_view what, LabeledImages images,
                                             const CropAndFlip& augmentation = {});

  int64_t num_samples() const override { return static_cast<int64_t>(images_.labels.size()); }
  const std::vector<SampleField>& fields() const override { return fields_; }
  DataIdentity identity() const override { return identity_; }
  absl::Status Fill(int field, absl::Span<const int64_t> samples, int64_t position, const Box& box,
                    std::byte* to) const override;

 private:
  ImageDataset(LabeledImages images, const CropAndFlip& augmentation);
  void FillImage(int64_t sample, int64_t position, const Box& box, uint8_t* to) const;

  LabeledImages images_;
  CropAndFlip augmentation_;
  std::vector<SampleField> fields_;
  DataIdentity identity_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_IMAGE_DATASET_H_
