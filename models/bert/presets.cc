#include "models/bert/presets.h"

namespace sluice {
namespace {

constexpr char kTexts[] = "text-classes";

// The classes are those of Reuters' R8.
BertConfig Small() {
  BertConfig config;
  config.classes = 8;
  config.vocabulary = 4000;
  config.sequence_length = 64;
  config.layers = 3;
  config.heads = 4;
  config.hidden = 128;
  config.predictions = 10;
  config.batch = 32;
  return config;
}

BertConfig Sized(int64_t layers, int64_t heads, int64_t hidden) {
  BertConfig config;
  config.classes = 8;
  config.layers = layers;
  config.heads = heads;
  config.hidden = hidden;
  return config;
}

}  // namespace

const std::vector<std::pair<std::string, BertTask>>& BertTasks() {
  static const auto* tasks =
      new std::vector<std::pair<std::string, BertTask>>{{"pretrain", BertTask::kPretrain},
                                                        {"classify", BertTask::kClassify},
                                                        {"both", BertTask::kBoth}};
  return *tasks;
}

const std::vector<BertPreset>& BertPresets() {
  static const auto* presets = new std::vector<BertPreset>{
      {.name = "default",
       .what = "as small, and then as classify what was learned",
       .data = kTexts,
       .task = BertTask::kBoth,
       .config = Small(),
       .steps = 4000,
       .warmup = 100,
       .lr = 1e-3},
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
       .task = BertTask::kClassify,
       .config = Small(),
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
