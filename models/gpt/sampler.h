// Writes text with a GPT: the programs "decode" and "prefill" of a session (gpt.h). As long as text
// and prompt fit into the model, each token costs one step of decode, which goes on with the keys
// and values that the steps before have left. Once they do not, the model sees the last tokens
// alone; all of them then stand elsewhere than before, so that each token costs a step of prefill.
// Of several ranks all write together: the first one, which has the logits, draws. The session's
// thread.
#ifndef SLUICE_MODELS_GPT_SAMPLER_H_
#define SLUICE_MODELS_GPT_SAMPLER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/session/session.h"

namespace sluice {

struct SampleOptions {
  int64_t length = 300;           // tokens to write
  double temperature = 0.8;       // 0: always the likeliest
  int top = 40;                   // only the likeliest so many; 0: all
  uint64_t seed = 1;              // the draws: a function of seed and place
  int64_t vocabulary = 0;         // tokens that may be drawn, the model's first; 0: all
  int64_t sequence_length = 128;  // of the programs
  // Asked before each token, if set; of several ranks it gives all the same answers (AgreedStop).
  std::function<bool()> stop;
};

// What follows the prompt, which is not empty; of one longer than the model its end is read. All
// ranks get it, and are asked for the same.
absl::StatusOr<std::vector<int32_t>> SampleTokens(Session* session,
                                                  absl::Span<const int32_t> prompt,
                                                  const SampleOptions& options);

// Draws from softmax(logits / temperature) over the `top` likeliest. `uniform` is in [0, 1).
int DrawToken(absl::Span<const double> logits, double temperature, int top, double uniform);

}  // namespace sluice

#endif  // SLUICE_MODELS_GPT_SAMPLER_H_
