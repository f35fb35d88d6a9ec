// Face networks by name, each with what trains it well. Pure: no flags.
#ifndef SLUICE_MODELS_INSIGHTFACE_PRESETS_H_
#define SLUICE_MODELS_INSIGHTFACE_PRESETS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "models/insightface/insightface.h"

namespace sluice {

struct FacePreset {
  std::string name, what;
  FaceConfig config;
  bool synthetic = false;
  int64_t steps = 1000, warmup = 100;
  double lr = 0.1, weight_decay = 5e-4;
};
const std::vector<FacePreset>& FacePresets();  // the first is what runs without flags

}  // namespace sluice

#endif  // SLUICE_MODELS_INSIGHTFACE_PRESETS_H_
