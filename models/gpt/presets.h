// GPTs by name, each with what trains it well. Pure: no flags.
#ifndef SLUICE_MODELS_GPT_PRESETS_H_
#define SLUICE_MODELS_GPT_PRESETS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "models/gpt/gpt.h"

namespace sluice {

struct GptPreset {
  std::string name, what;
  GptConfig config;
  int64_t steps = 1000, warmup = 20;
  double lr = 1e-3;
};
const std::vector<GptPreset>& GptPresets();  // the first is what runs without flags

}  // namespace sluice

#endif  // SLUICE_MODELS_GPT_PRESETS_H_
