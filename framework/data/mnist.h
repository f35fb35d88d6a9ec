// The four files of MNIST and of what took its format, such as Fashion-MNIST: pictures and labels,
// to train and to test. One thread.
#ifndef SLUICE_FRAMEWORK_DATA_MNIST_H_
#define SLUICE_FRAMEWORK_DATA_MNIST_H_

#include <string>

#include "absl/status/statusor.h"
#include "framework/data/image_dataset.h"

namespace sluice {

struct Mnist {
  LabeledImages training, held_out;  // [height, width, 1]
};

// Reads train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and
// t10k-labels-idx1-ubyte in a folder, each plain or with .gz or .zst behind its name. NotFound
// names the first that is missing; other errors name the file.
absl::StatusOr<Mnist> ReadMnist(const std::string& folder);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_MNIST_H_
