#include "models/bert/presets.h"

namespace sluice {
namespace {

constexpr char kTexts[] = "text-classes";

BertConfig Small() {
  BertConfig config;
  config.vocabulary = 4000;
  config.sequence_length = 64;
  config.layers = 3;
  config.heads = 4;
  config.hidden = 128;
  config.predictions = 10;
  config.batch = 32;
  return config;
}

// What was learned has an embedding for as many positions, and no more.
BertConfig Classifying(int64_t classes) {
  BertConfig config = Small();
  config.classes = classes;
  return config;
}

BertConfig Sized(int64_t layers, int64_t heads, int64_t hidden) {
  BertConfig config;
  config.layers = layers;
  config.heads = heads;
  config.hidden = hidden;
  return config;
}

}  // namespace

const std::vector<BertPreset>& BertPresets() {
  static const auto* presets = new std::vector<BertPreset>{
      {.name = "small",
       .what = "pre-trains a small BERT on news and newsgroups: minutes on two cores",
       .data = kTexts,
       .config = Small(),
       .steps = 4000,
       .warmup = 100,
       .lr = 1e-3},
      {.name = "classify",
       .what = "the same model tells the eight classes of Reuters R8 apart; with --init of a run",
       .data = kTexts,
       .config = Classifying(8),
       .steps = 1200,
       .warmup = 100,
       .lr = 5e-4},
      {.name = "base",
       .what = "BERT base, 12 layers of 768, on --data: days",
       .config = Sized(12, 12, 768),
       .steps = 100000,
       .warmup = 10000,
       .lr = 1e-4},
      {.name = "large",
       .what = "BERT large, 24 layers of 1024",
       .config = Sized(24, 16, 1024),
       .steps = 100000,
       .warmup = 10000,
       .lr = 1e-4}};
  return *presets;
}

}  // namespace sluice
