#include "models/resnet/options.h"

#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "models/resnet/presets.h"

ABSL_FLAG(int64_t, depth, 0, "layers: 18, 34, 50 or 101");
ABSL_FLAG(int64_t, width, 0, "channels of the first stage; each of the four doubles them");
ABSL_FLAG(int64_t, classes, 0, "classes that are told apart");
ABSL_FLAG(int64_t, image_size, 0, "height and width of what the network sees");
ABSL_FLAG(int64_t, channels, 0, "1 for grey pictures, 3 for coloured ones");
ABSL_FLAG(bool, small_images, false, "a stem that keeps the size: for pictures of some 32 pixels");
ABSL_FLAG(int64_t, groups, 1,
          "equal ranges of the batch over which batch norm takes statistics; 1: over all of it, on "
          "all devices");
ABSL_FLAG(int64_t, split_stages, 0,
          "so many of the last stages have their channels split over the mesh's axis model, as the "
          "classes are");
ABSL_FLAG(double, label_smoothing, 0, "share of the target that all classes have alike");
ABSL_FLAG(bool, augment, true, "crop and mirror pictures at random while training");
ABSL_FLAG(bool, synthetic, false, "draw pictures at random instead of reading --data");

namespace sluice {
namespace {

constexpr char kHelp[] =
    "Trains a ResNet on pictures, on devices that this machine's cores play.\n"
    "Without flags it learns Fashion-MNIST, which `bazel run //tools:dataset -- fetch "
    "fashion-mnist` brings.\n\n"
    "  bazel run //models/resnet:train -- --preset=resnet18 --precision=bf16\n"
    "  bazel run //models/resnet:train -- --preset=imagenet --data=/data/imagenet --batch=64\n"
    "  bazel run //models/resnet:train -- --mesh=\"data=2 model=2\" --split_stages=1\n";

constexpr char kByPreset[] = "by preset";

Preset FlagsOf(const ResNetPreset& preset) {
  const ResNetConfig& c = preset.config;
  const auto text = [](bool value) { return std::string(value ? "true" : "false"); };
  return {preset.name,
          preset.what,
          {{"data", preset.data},
           {"depth", absl::StrCat(c.depth)},
           {"width", absl::StrCat(c.width)},
           {"classes", absl::StrCat(c.classes)},
           {"image_size", absl::StrCat(c.image_size)},
           {"channels", absl::StrCat(c.channels)},
           {"small_images", text(c.small_images)},
           {"synthetic", text(preset.synthetic)},
           {"batch", absl::StrCat(c.batch)},
           {"steps", absl::StrCat(preset.steps)},
           {"lr", absl::StrCat(preset.lr)},
           {"warmup", absl::StrCat(preset.warmup)},
           {"lr_floor", "0"},
           {"optimizer", "sgd"},
           {"momentum", "0.9"},
           {"nesterov", "true"},
           {"clip", "0"},
           {"weight_decay", absl::StrCat(preset.weight_decay)}}};
}

// Of pixel values in [0, 1]: ImageNet's of coloured pictures, Fashion-MNIST's of grey ones.
void SetPixelStatistics(ResNetConfig* config) {
  if (config->channels == 3) return;
  config->mean.assign(config->channels, 0.2860);
  config->stddev.assign(config->channels, 0.3530);
}

}  // namespace

AppFlags ResNetFlags() {
  AppFlags flags;
  flags.help = kHelp;
  flags.data = {"data", "PATH", kByPreset,
                "pictures: a folder of IDX files as MNIST's, a folder with a folder of JPEG, PNG, "
                "WebP, GIF, TIFF or BMP files for each class, a file of records, .tfrecord, "
                ".ofrecord or part-NUMBER, a folder of "
                "those, or the name of a data set that //tools:dataset fetched"};
  flags.model = {{"depth", "N", kByPreset},    {"width", "N", kByPreset},
                 {"classes", "N", kByPreset},  {"image_size", "N", kByPreset},
                 {"channels", "N", kByPreset}, {"small_images", "", kByPreset},
                 {"groups", "N", ""},          {"split_stages", "N", ""},
                 {"label_smoothing", "X", ""}, {"augment", "", ""},
                 {"synthetic", "", kByPreset}};
  for (const ResNetPreset& preset : ResNetPresets()) flags.presets.push_back(FlagsOf(preset));
  flags.shape = {"depth", "width", "classes", "channels", "small_images"};
  return flags;
}

absl::StatusOr<ResNetOptions> ReadResNetFlags(const AppOptions& options) {
  ResNetOptions resnet;
  ResNetConfig& config = resnet.config;
  config.depth = absl::GetFlag(FLAGS_depth);
  config.width = absl::GetFlag(FLAGS_width);
  config.classes = absl::GetFlag(FLAGS_classes);
  config.image_size = absl::GetFlag(FLAGS_image_size);
  config.channels = absl::GetFlag(FLAGS_channels);
  config.small_images = absl::GetFlag(FLAGS_small_images);
  config.groups = absl::GetFlag(FLAGS_groups);
  config.split_stages = absl::GetFlag(FLAGS_split_stages);
  config.label_smoothing = absl::GetFlag(FLAGS_label_smoothing);
  config.batch = options.batch;
  config.precision = options.precision;
  SetPixelStatistics(&config);
  RETURN_IF_ERROR(AddContext(
      CheckResNet(config, options.optimizer.zero.mesh, options.session.micro_batches), "model"));
  resnet.pictures.image_size = config.image_size;
  resnet.pictures.channels = config.channels;
  resnet.pictures.classes = config.classes;
  resnet.pictures.augment = absl::GetFlag(FLAGS_augment);
  resnet.pictures.synthetic = absl::GetFlag(FLAGS_synthetic);
  resnet.pictures.seed = options.session.seed;
  return resnet;
}

}  // namespace sluice
