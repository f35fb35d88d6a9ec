// Wide & Deep models by name, each with what trains it well. Pure: no flags.
#ifndef SLUICE_MODELS_WIDE_AND_DEEP_PRESETS_H_
#define SLUICE_MODELS_WIDE_AND_DEEP_PRESETS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

struct WideAndDeepPreset {
  std::string name, what;
  std::string split = "random";  // of flights
  bool synthetic = false;
  int64_t vocabulary = 1000000;  // of logs and drawn samples
  std::string widths, hidden;    // of embeddings, a table each; of layers
  int64_t batch = 1024, steps = 1000, warmup = 50;
  double lr = 1e-3, wide_lr = 0.05, dropout = 0, weight_decay = 0;
};
const std::vector<WideAndDeepPreset>& WideAndDeepPresets();  // the first is what runs without flags

}  // namespace sluice

#endif  // SLUICE_MODELS_WIDE_AND_DEEP_PRESETS_H_
