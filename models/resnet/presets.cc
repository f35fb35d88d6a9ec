#include "models/resnet/presets.h"

namespace sluice {
namespace {

// Fashion-MNIST as it is: 28 x 28 grey pictures, of which a stem with stride would leave nothing.
// A batch of 100 divides the 10,000 that are held out, so that each of them counts once.
ResNetConfig Fashion(int64_t depth, int64_t width) {
  ResNetConfig config;
  config.depth = depth;
  config.width = width;
  config.classes = 10;
  config.image_size = 28;
  config.channels = 1;
  config.small_images = true;
  config.batch = 100;
  return config;
}

ResNetConfig Photographs() {
  ResNetConfig config;
  config.depth = 18;
  config.classes = 14;
  config.image_size = 128;
  config.batch = 32;
  return config;
}

ResNetConfig ImageNet(int64_t batch) {
  ResNetConfig config;
  config.batch = batch;
  return config;
}

constexpr char kFashion[] = "fashion-mnist";

}  // namespace

const std::vector<ResNetPreset>& ResNetPresets() {
  static const auto* presets = new std::vector<ResNetPreset>{
      {.name = "fashion_mnist",
       .what = "a narrow ResNet-18 on pictures of clothes: minutes on two cores",
       .data = kFashion,
       .config = Fashion(18, 16),
       .steps = 1800,
       .lr = 0.1},
      {.name = "resnet18",
       .what = "ResNet-18 on the same, 10 epochs: some 45 minutes in bf16",
       .data = kFashion,
       .config = Fashion(18, 64),
       .steps = 6000,
       .warmup = 300,
       .lr = 0.1},
      {.name = "resnet50",
       .what = "ResNet-50 on the same: hours",
       .data = kFashion,
       .config = Fashion(50, 64),
       .steps = 6000,
       .warmup = 300,
       .lr = 0.1},
      {.name = "photographs",
       .what = "ResNet-18 on 1,393 photographs of fruit and vegetables as JPEG files, 128 x 128",
       .data = "eccd",
       .config = Photographs(),
       .steps = 600,
       .warmup = 50,
       .lr = 0.05},
      {.name = "imagenet",
       .what = "ResNet-50 on --data, a folder of class folders: 224 x 224, 1000 classes",
       .config = ImageNet(256),
       .steps = 450000,
       .warmup = 25000,
       .lr = 0.1,
       .weight_decay = 5e-5},
      {.name = "synthetic",
       .what = "ResNet-50 on pictures that are drawn at random: what a step costs",
       .config = ImageNet(8),
       .synthetic = true,
       .steps = 20,
       .warmup = 5,
       .lr = 0.01}};
  return *presets;
}

}  // namespace sluice
