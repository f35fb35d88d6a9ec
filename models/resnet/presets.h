// ResNets by name, each with what trains it well. Pure: no flags.
#ifndef SLUICE_MODELS_RESNET_PRESETS_H_
#define SLUICE_MODELS_RESNET_PRESETS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "models/resnet/resnet.h"

namespace sluice {

struct ResNetPreset {
  std::string name, what;
  std::string data = {};  // a data set of //tools:dataset; empty: what --data names, or none at all
  ResNetConfig config;
  bool synthetic = false;
  int64_t steps = 1000, warmup = 100;
  double lr = 0.1, weight_decay = 5e-4;
};
const std::vector<ResNetPreset>& ResNetPresets();  // the first is what runs without flags

}  // namespace sluice

#endif  // SLUICE_MODELS_RESNET_PRESETS_H_
