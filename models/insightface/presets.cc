#include "models/insightface/presets.h"

namespace sluice {
namespace {

// Characters of 32 x 32 grey pixels: those that all fonts have, but for the thousand held out.
FaceConfig Characters(const std::string& network, int64_t width, int64_t embedding) {
  FaceConfig config;
  config.network = network;
  config.width = width;
  config.embedding = embedding;
  config.classes = 5353;
  config.image_size = 32;
  config.channels = 1;
  config.batch = 128;
  return config;
}

FaceConfig Faces(const std::string& network, int64_t classes, int64_t batch) {
  FaceConfig config;
  config.network = network;
  config.classes = classes;
  config.batch = batch;
  return config;
}

}  // namespace

const std::vector<FacePreset>& FacePresets() {
  static const auto* presets = new std::vector<FacePreset>{
      {.name = "characters",
       .what = "a narrow IR-ResNet-18 on characters of fonts: minutes on two cores",
       .config = Characters("ir18", 16, 128),
       .steps = 1000,
       .lr = 0.1},
      {.name = "ir18",
       .what = "IR-ResNet-18 on the same: sixteen times the work a picture",
       .config = Characters("ir18", 64, 512),
       .steps = 12000,
       .warmup = 500,
       .lr = 0.1},
      {.name = "mobilefacenet",
       .what = "MobileFaceNet on the same",
       .config = Characters("mobilefacenet", 64, 128),
       .steps = 12000,
       .warmup = 500,
       .lr = 0.1},
      {.name = "synthetic",
       .what = "IR-ResNet-50 on pictures that are drawn at random: what a step costs",
       .config = Faces("ir50", 10000, 8),
       .synthetic = true,
       .steps = 20,
       .warmup = 5,
       .lr = 0.01}};
  return *presets;
}

}  // namespace sluice
