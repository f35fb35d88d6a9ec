// What a ResNet learns from: IDX files as MNIST has them, folders of pictures, pictures in TFRecord
// or OFRecord files, or pictures that are drawn at random. One thread.
#ifndef SLUICE_MODELS_RESNET_PICTURES_H_
#define SLUICE_MODELS_RESNET_PICTURES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "framework/base/stop.h"
#include "framework/train/app.h"

namespace sluice {

struct PictureOptions {
  int64_t image_size = 224, channels = 3, classes = 1000;  // as the model takes them
  bool augment = true;                                     // what is learned from, each epoch anew
  bool synthetic = false;                                  // nothing is read
  uint64_t seed = 1;                                       // of what is drawn
  Stop stop = {};  // ends the reading of all pictures soon after it says so: Cancelled
};

// NotFound: `data` is not there. Errors name the folder or file, what was expected and got.
absl::StatusOr<AppData> OpenPictures(const std::string& data, const PictureOptions& options);

}  // namespace sluice

#endif  // SLUICE_MODELS_RESNET_PICTURES_H_
