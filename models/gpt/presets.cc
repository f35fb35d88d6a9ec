#include "models/gpt/presets.h"

namespace sluice {

const std::vector<GptPreset>& GptPresets() {
  static const auto* presets = new std::vector<GptPreset>{
      {.name = "default",
       .what = "learns this repository in about two minutes on two cores",
       .config = {.sequence_length = 128, .layers = 6, .heads = 6, .hidden = 192, .batch = 16},
       .steps = 1000,
       .warmup = 50,
       .lr = 2e-3},
      {.name = "tiny",
       .what = "the model of the tests: seconds",
       .config = {.sequence_length = 64, .layers = 4, .heads = 4, .hidden = 128, .batch = 8},
       .steps = 200,
       .warmup = 20,
       .lr = 1e-3},
      {.name = "gpt_small",
       .what = "GPT-2's smallest, over bytes: hours",
       .config = {.sequence_length = 1024, .layers = 12, .heads = 12, .hidden = 768, .batch = 32},
       .steps = 20000,
       .warmup = 1000,
       .lr = 6e-4}};
  return *presets;
}

}  // namespace sluice
