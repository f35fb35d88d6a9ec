#include "framework/data/mnist.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/data/idx.h"

namespace sluice {
namespace {

// The path of a file of that name, or of that name with .gz or .zst.
absl::StatusOr<std::string> Find(const std::string& folder, const std::string& name) {
  std::error_code error;
  for (const char* ending : {"", ".gz", ".zst"}) {
    std::string path = absl::StrCat(folder, "/", name, ending);
    if (std::filesystem::exists(path, error)) return path;
  }
  return absl::NotFoundError(absl::StrCat("data: expected ", name, ", it with .gz or with .zst in ",
                                          folder, ", got none"));
}

absl::StatusOr<LabeledImages> ReadPart(const std::string& folder, const std::string& part) {
  ASSIGN_OR_RETURN(const std::string of_pictures, Find(folder, part + "-images-idx3-ubyte"));
  ASSIGN_OR_RETURN(const std::string of_labels, Find(folder, part + "-labels-idx1-ubyte"));
  ASSIGN_OR_RETURN(IdxArray pictures, ReadIdx(of_pictures));
  ASSIGN_OR_RETURN(const IdxArray labels, ReadIdx(of_labels));
  const Shape& shape = pictures.shape;
  if (shape.rank() != 3 || shape.NumElements() == 0) {
    return absl::DataLossError(absl::StrCat(
        "data: ", of_pictures, ": expected [pictures, height, width], got ", shape.ToString()));
  }
  if (labels.shape != Shape({shape[0]})) {
    return absl::DataLossError(absl::StrCat("data: ", of_labels, ": expected a label for each of ",
                                            shape[0], " pictures, got ", labels.shape.ToString()));
  }
  LabeledImages images;
  images.shape = {shape[1], shape[2], 1};
  images.pixels = std::move(pictures.values);
  images.labels.assign(labels.values.begin(), labels.values.end());
  return images;
}

}  // namespace

absl::StatusOr<Mnist> ReadMnist(const std::string& folder) {
  Mnist mnist;
  ASSIGN_OR_RETURN(mnist.training, ReadPart(folder, "train"));
  ASSIGN_OR_RETURN(mnist.held_out, ReadPart(folder, "t10k"));
  if (mnist.training.shape != mnist.held_out.shape) {
    return absl::DataLossError(absl::StrCat(
        "data: ", folder, ": expected pictures of one size, got ", mnist.training.shape.ToString(),
        " to train and ", mnist.held_out.shape.ToString(), " to test"));
  }
  return mnist;
}

}  // namespace sluice
