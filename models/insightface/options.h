// The flags that a face network adds to those of every model, and what they come to. Linked by its
// trainer alone. Called by main, before other threads start.
#ifndef SLUICE_MODELS_INSIGHTFACE_OPTIONS_H_
#define SLUICE_MODELS_INSIGHTFACE_OPTIONS_H_

#include "absl/status/statusor.h"
#include "framework/train/app_options.h"
#include "models/insightface/face_data.h"
#include "models/insightface/insightface.h"

namespace sluice {

// The presets of presets.h among them.
AppFlags FaceFlags();

struct FaceOptions {
  FaceConfig config;
  FaceDataOptions data;
};

// InvalidArgument, of one line, names the flag.
absl::StatusOr<FaceOptions> ReadFaceFlags(const AppOptions& options);

}  // namespace sluice

#endif  // SLUICE_MODELS_INSIGHTFACE_OPTIONS_H_
