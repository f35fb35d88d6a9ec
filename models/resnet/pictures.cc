#include "models/resnet/pictures.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <numeric>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/hash.h"
#include "framework/base/status.h"
#include "framework/data/drawn_images.h"
#include "framework/data/image_dataset.h"
#include "framework/data/image_folder.h"
#include "framework/data/mnist.h"
#include "framework/data/photo_dataset.h"
#include "framework/data/record_parts.h"
#include "framework/data/record_photos.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// Enough that no cache holds them, so few that drawing them takes no time.
constexpr int64_t kDrawn = 256;
// Of pictures of some 30 pixels: what they can be moved by without losing what they show.
constexpr int64_t kPadding = 2;
// Share by which brightness, contrast and saturation of a photograph may change.
constexpr double kJitter = 0.2;

absl::Status CheckPictures(const std::string& what, const LabeledImages& images,
                           const PictureOptions& options) {
  const Shape expected = {options.image_size, options.image_size, options.channels};
  if (images.shape != expected) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": expected pictures of --image_size and --channels, ",
                     expected.ToString(), ", got ", images.shape.ToString()));
  }
  const auto largest = std::max_element(images.labels.begin(), images.labels.end());
  if (largest == images.labels.end() || *largest < options.classes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, ": expected labels below --classes, ",
                                                 options.classes, ", got ", *largest));
}

absl::StatusOr<std::unique_ptr<Dataset>> Make(const std::string& what, LabeledImages images,
                                              const PictureOptions& options, bool augment) {
  RETURN_IF_ERROR(CheckPictures(what, images, options));
  CropAndFlip augmentation;
  if (augment) augmentation = {.padding = kPadding, .flip = true, .seed = options.seed};
  ASSIGN_OR_RETURN(ImageDataset dataset,
                   ImageDataset::Create(what, std::move(images), augmentation));
  return std::make_unique<ImageDataset>(std::move(dataset));
}

// What is known of the classes without a look at a picture.
Baseline Guessing(int64_t classes) { return {"guessing", std::log(static_cast<double>(classes))}; }

void Describe(const std::string& from, AppData* data) {
  data->held_out_name = "held-out pictures";
  data->order = SampleOrder::kEpochs;
  const std::string digest = HashText(data->training->identity().digest);
  data->lines = {absl::StrFormat("pictures   %d to learn from, %d held out, digest %s, %s",
                                 data->training->num_samples(), data->held_out->num_samples(),
                                 digest, from)};
  data->facts = {{"pictures", digest}};
}

absl::StatusOr<AppData> Draw(const PictureOptions& options) {
  const Shape shape = {options.image_size, options.image_size, options.channels};
  AppData data;
  ASSIGN_OR_RETURN(data.training,
                   Make("drawn pictures", DrawImages(kDrawn, shape, options.classes, options.seed),
                        options, false));
  ASSIGN_OR_RETURN(
      data.held_out,
      Make("drawn pictures", DrawImages(kDrawn / 4, shape, options.classes, options.seed + 1),
           options, false));
  Describe("drawn at random", &data);
  return data;
}

absl::StatusOr<AppData> OpenMnist(const std::string& folder, const PictureOptions& options) {
  ASSIGN_OR_RETURN(Mnist mnist, ReadMnist(folder));
  AppData data;
  ASSIGN_OR_RETURN(data.training,
                   Make(folder, std::move(mnist.training), options, options.augment));
  ASSIGN_OR_RETURN(data.held_out, Make(folder, std::move(mnist.held_out), options, false));
  Describe(folder, &data);
  data.baseline = Guessing(options.classes);
  return data;
}

// What is learned from is cut, mirrored and coloured anew each time, what is held out is not.
absl::StatusOr<AppData> OpenPhotos(const std::string& path,
                                   std::unique_ptr<const PhotoStore> training,
                                   std::unique_ptr<const PhotoStore> held_out,
                                   const PictureOptions& options) {
  if (options.channels != 3) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": expected --channels=3, as photographs have them, got ", options.channels));
  }
  PhotoView view;
  view.height = view.width = options.image_size;
  view.seed = options.seed;
  PhotoView random = view;
  if (options.augment) {
    random.random = true;
    random.brightness = random.contrast = random.saturation = kJitter;
  }
  AppData data;
  const IdentifyOptions identify = {.stop = options.stop};
  ASSIGN_OR_RETURN(data.training, PhotoDataset::Open("pictures to learn from", std::move(training),
                                                     random, PhotoUse::kTraining, identify));
  ASSIGN_OR_RETURN(data.held_out, PhotoDataset::Open("held-out pictures", std::move(held_out), view,
                                                     PhotoUse::kHeldOut, identify));
  Describe(path, &data);
  data.baseline = Guessing(options.classes);
  return data;
}

absl::StatusOr<AppData> OpenFolder(const std::string& path, const PictureOptions& options) {
  ASSIGN_OR_RETURN(ImageFolder folder, ListImageFolder(path));
  const int64_t classes = static_cast<int64_t>(folder.classes.size());
  if (classes != options.classes) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected --classes=", classes,
                                                   ", as many as there are class folders, got ",
                                                   options.classes));
  }
  ASSIGN_OR_RETURN(
      AppData data,
      OpenPhotos(path, std::make_unique<FolderPhotos>(path, std::move(folder.training)),
                 std::make_unique<FolderPhotos>(path, std::move(folder.held_out)), options));
  if (!folder.left_out.empty()) {
    data.lines.push_back(absl::StrFormat("           left out, as no pictures by their names: %s",
                                         DescribeLeftOut(folder.left_out)));
  }
  return data;
}

// Of records that are in no two parts every tenth, by hash of its number, is held out.
absl::StatusOr<AppData> OpenRecords(const RecordFiles& files, const PictureOptions& options) {
  constexpr uint64_t kHeldOutEvery = 10;
  const bool parted = !files.held_out.empty();
  ASSIGN_OR_RETURN(const auto learned_from,
                   OpenPhotoRecords(files.framing, files.path, files.training));
  auto evaluated_on = learned_from;
  std::vector<int64_t> training, held_out;
  for (int64_t record = 0; record < learned_from->records.num_records(); ++record) {
    const bool out = !parted && StableHash(&record, sizeof(record)) % kHeldOutEvery == 0;
    (out ? held_out : training).push_back(record);
  }
  if (parted) {
    ASSIGN_OR_RETURN(evaluated_on, OpenPhotoRecords(files.framing, files.path, files.held_out));
    held_out.resize(evaluated_on->records.num_records());
    std::iota(held_out.begin(), held_out.end(), 0);
  }
  auto learned = std::make_unique<RecordPhotos>(learned_from, std::move(training), options.classes);
  auto evaluated =
      std::make_unique<RecordPhotos>(evaluated_on, std::move(held_out), options.classes);
  ASSIGN_OR_RETURN(AppData data,
                   OpenPhotos(files.path, std::move(learned), std::move(evaluated), options));
  const int64_t cut =
      learned_from->records.cut_bytes() + (parted ? evaluated_on->records.cut_bytes() : 0);
  if (cut > 0) {
    data.lines.push_back(
        absl::StrFormat("           the last %d bytes are of a record that is cut short", cut));
  }
  return data;
}

bool HasIdxFiles(const std::string& folder) {
  std::error_code error;
  for (const char* ending : {"", ".gz", ".zst"}) {
    if (fs::exists(absl::StrCat(folder, "/train-images-idx3-ubyte", ending), error)) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<AppData> OpenPictures(const std::string& data, const PictureOptions& options) {
  if (options.synthetic) return Draw(options);
  if (data.empty()) {
    return absl::NotFoundError("data: expected a folder of pictures as --data, got none");
  }
  std::error_code error;
  if (!fs::exists(data, error)) {
    const std::string name = fs::path(data).filename().string();
    return absl::NotFoundError(absl::StrCat("data: expected pictures in ", data,
                                            ", which is not there; if it is a data set, bazel run "
                                            "//tools:dataset -- fetch ",
                                            name, " brings it"));
  }
  if (HasIdxFiles(data)) return OpenMnist(data, options);
  const absl::StatusOr<RecordFiles> records = ListRecordFiles(data);
  if (records.ok()) return OpenRecords(*records, options);
  const bool other = absl::IsNotFound(records.status()) && fs::is_directory(data, error);
  return other ? OpenFolder(data, options) : records.status();
}

}  // namespace sluice
