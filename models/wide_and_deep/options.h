// The flags that a Wide & Deep model adds to those of every model, and what they come to. Linked by
// its trainer alone. Called by main, before other threads start.
#ifndef SLUICE_MODELS_WIDE_AND_DEEP_OPTIONS_H_
#define SLUICE_MODELS_WIDE_AND_DEEP_OPTIONS_H_

#include "absl/status/statusor.h"
#include "framework/train/app_options.h"
#include "models/wide_and_deep/click_data.h"
#include "models/wide_and_deep/wide_and_deep.h"

namespace sluice {

// The presets of presets.h among them.
AppFlags WideAndDeepFlags();

struct WideAndDeepOptions {
  WideAndDeepConfig config;
  OptimizerOptions optimizer;  // with that of the wide part
  ClickDataOptions data;
};

// InvalidArgument, of one line, names the flag.
absl::StatusOr<WideAndDeepOptions> ReadWideAndDeepFlags(const AppOptions& options);

}  // namespace sluice

#endif  // SLUICE_MODELS_WIDE_AND_DEEP_OPTIONS_H_
