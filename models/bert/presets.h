// BERTs by name, each with what trains it well. Pure: no flags.
#ifndef SLUICE_MODELS_BERT_PRESETS_H_
#define SLUICE_MODELS_BERT_PRESETS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "models/bert/bert.h"

namespace sluice {

// What a run trains: guessing words and sentences, telling texts apart, or the one and then, in a
// run of its own that begins with what was learned, the other.
enum class BertTask : uint8_t { kPretrain, kClassify, kBoth };
// "pretrain", "classify", "both".
const std::vector<std::pair<std::string, BertTask>>& BertTasks();

struct BertPreset {
  std::string name, what;
  std::string data = {};  // a data set of //tools:dataset; empty: what --data names
  BertTask task = BertTask::kPretrain;
  BertConfig config = {};  // its classes are those of --task=classify
  int64_t steps = 1000, warmup = 100;
  double lr = 1e-3;
};
const std::vector<BertPreset>& BertPresets();  // the first is what runs without flags

}  // namespace sluice

#endif  // SLUICE_MODELS_BERT_PRESETS_H_
