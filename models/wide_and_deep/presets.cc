#include "models/wide_and_deep/presets.h"

namespace sluice {

const std::vector<WideAndDeepPreset>& WideAndDeepPresets() {
  static const auto* presets = new std::vector<WideAndDeepPreset>{
      {.name = "flights",
       .what = "which flights are late, a random fifth held out: seconds on two cores",
       .widths = "8,16",
       .hidden = "128,64",
       .steps = 768,
       .lr = 2e-3,
       .weight_decay = 0.01},
      {.name = "forward",
       .what = "the same, the last two months held out",
       .split = "forward",
       .widths = "8,16",
       .hidden = "128,64",
       .steps = 512,
       .lr = 1e-3,
       .weight_decay = 0.01},
      {.name = "logs",
       .what = "click logs in Criteo's format, which --data names",
       .widths = "16",
       .hidden = "1024,512,256",
       .batch = 4096,
       .steps = 10000,
       .warmup = 500},
      {.name = "synthetic",
       .what = "26 features of a million rows, drawn at random: what a step costs",
       .synthetic = true,
       .widths = "16",
       .hidden = "1024,512,256",
       .batch = 4096,
       .steps = 20,
       .warmup = 5}};
  return *presets;
}

}  // namespace sluice
