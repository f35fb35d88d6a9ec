// BERTs by name, each with what trains it well. Pure: no flags.
#ifndef SLUICE_MODELS_BERT_PRESETS_H_
#define SLUICE_MODELS_BERT_PRESETS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "models/bert/bert.h"

namespace sluice {

struct BertPreset {
  std::string name, what;
  std::string data = {};  // a data set of //tools:dataset; empty: what --data names
  BertConfig config;      // of classes above 0: it tells texts apart
  int64_t steps = 1000, warmup = 100;
  double lr = 1e-3;
};
const std::vector<BertPreset>& BertPresets();  // the first is what runs without flags

}  // namespace sluice

#endif  // SLUICE_MODELS_BERT_PRESETS_H_
