// Writes text with a byte-level language model: the "sample" program of a session, whose input
// `tokens` is i32 [1, length] and whose output `logits` is [1, length, 256]. The session's thread.
#ifndef SLUICE_MODELS_GPT_SAMPLER_H_
#define SLUICE_MODELS_GPT_SAMPLER_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/session/session.h"

namespace sluice {

struct SampleOptions {
  std::string prompt = "\n";      // not empty; its end is read where it is longer than the model
  int64_t length = 300;           // bytes to write
  double temperature = 0.8;       // 0: always the likeliest
  int top = 40;                   // only the likeliest so many; 0: all
  uint64_t seed = 1;              // the draws: a function of seed and place
  int64_t sequence_length = 128;  // of the program
  std::function<bool()> stop;     // asked before each byte, if set
};

// What follows the prompt.
absl::StatusOr<std::string> SampleText(Session* session, const SampleOptions& options);

// Prints the prompt and what follows it, between two lines; nothing if its length is 0.
absl::Status PrintSample(Session* session, const SampleOptions& options);

// Draws from softmax(logits / temperature) over the `top` likeliest. `uniform` is in [0, 1).
int DrawToken(absl::Span<const double> logits, double temperature, int top, double uniform);

}  // namespace sluice

#endif  // SLUICE_MODELS_GPT_SAMPLER_H_
