// The flags that a GPT adds to those of every model, and what they come to. Linked by its trainer
// alone. Called by main, before other threads start.
#ifndef SLUICE_MODELS_GPT_OPTIONS_H_
#define SLUICE_MODELS_GPT_OPTIONS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/train/app_options.h"
#include "models/gpt/gpt.h"
#include "models/gpt/sampler.h"
#include "models/gpt/tokenizer.h"

namespace sluice {

// The presets of presets.h among them.
AppFlags GptFlags();

struct GptOptions {
  GptConfig config;
  RunTokenizer tokenizer;
  bool raw_bytes = false;       // data need not be text
  std::vector<int32_t> prompt;  // what a sample begins with; not empty
  SampleOptions sample;         // but for `stop`
};

// InvalidArgument, of one line, names the flag.
absl::StatusOr<GptOptions> ReadGptFlags(const AppOptions& options);

}  // namespace sluice

#endif  // SLUICE_MODELS_GPT_OPTIONS_H_
