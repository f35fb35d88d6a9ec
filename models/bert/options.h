// The flags that a BERT adds to those of every model, and what they come to. Linked by its trainer
// alone. Called by main, before other threads start.
#ifndef SLUICE_MODELS_BERT_OPTIONS_H_
#define SLUICE_MODELS_BERT_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/train/app_options.h"
#include "models/bert/bert.h"
#include "models/bert/presets.h"

namespace sluice {

// The presets of presets.h among them.
AppFlags BertFlags();

struct BertOptions {
  BertTask task = BertTask::kPretrain;
  BertConfig config;            // classes: 0 where texts are not told apart, or not yet
  int64_t later_classes = 0;    // of BertTask::kBoth
  std::string vocabulary_file;  // empty: none is named
};

// The arguments of the run that tells texts apart, after one of BertTask::kBoth in `run` which has
// ended at `step`: it lies in <run>/classify, and goes on there if it has saved something.
std::vector<std::string> ClassifyingRun(const AppOptions& options, const std::string& run,
                                        int64_t step);

// InvalidArgument, of one line, names the flag.
absl::StatusOr<BertOptions> ReadBertFlags(const AppOptions& options);

}  // namespace sluice

#endif  // SLUICE_MODELS_BERT_OPTIONS_H_
