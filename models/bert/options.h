// The flags that a BERT adds to those of every model, and what they come to. Linked by its trainer
// alone. Called by main, before other threads start.
#ifndef SLUICE_MODELS_BERT_OPTIONS_H_
#define SLUICE_MODELS_BERT_OPTIONS_H_

#include <string>

#include "absl/status/statusor.h"
#include "framework/train/app_options.h"
#include "models/bert/bert.h"

namespace sluice {

// The presets of presets.h among them.
AppFlags BertFlags();

struct BertOptions {
  BertConfig config;
  std::string vocabulary_file;  // empty: none is named
};

// InvalidArgument, of one line, names the flag.
absl::StatusOr<BertOptions> ReadBertFlags(const AppOptions& options);

}  // namespace sluice

#endif  // SLUICE_MODELS_BERT_OPTIONS_H_
