#include "bench/gpt_sizes.h"

#include "absl/strings/str_cat.h"
#include "models/gpt/presets.h"

namespace sluice {

absl::StatusOr<GptConfig> GptOfSize(const std::string& name) {
  if (name == "tiny") {
    return GptConfig{.vocabulary = 256,
                     .sequence_length = 128,
                     .layers = 4,
                     .heads = 4,
                     .hidden = 256,
                     .batch = 8,
                     .dropout = 0};
  }
  if (name == "small") {
    return GptConfig{.vocabulary = 50304,
                     .sequence_length = 256,
                     .layers = 12,
                     .heads = 12,
                     .hidden = 768,
                     .batch = 4,
                     .dropout = 0};
  }
  if (name == "default") {  // what the trainer runs without flags
    GptConfig config = GptPresets().front().config;
    config.dropout = 0;
    return config;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--size: expected tiny, default or small, got ", name));
}

}  // namespace sluice
