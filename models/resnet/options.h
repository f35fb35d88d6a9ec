// The flags that a ResNet adds to those of every model, and what they come to. Linked by its
// trainer alone. Called by main, before other threads start.
#ifndef SLUICE_MODELS_RESNET_OPTIONS_H_
#define SLUICE_MODELS_RESNET_OPTIONS_H_

#include "absl/status/statusor.h"
#include "framework/train/app_options.h"
#include "models/resnet/pictures.h"
#include "models/resnet/resnet.h"

namespace sluice {

// The presets of presets.h among them.
AppFlags ResNetFlags();

struct ResNetOptions {
  ResNetConfig config;
  PictureOptions pictures;
};

// InvalidArgument, of one line, names the flag.
absl::StatusOr<ResNetOptions> ReadResNetFlags(const AppOptions& options);

}  // namespace sluice

#endif  // SLUICE_MODELS_RESNET_OPTIONS_H_
