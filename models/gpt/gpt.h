// GPT: a decoder-only transformer over bytes, as GPT-2 has it: norms before attention and MLP, tanh
// gelu, biases, one table for the embedding and the logits. Four programs share its variables:
//   train     tokens, labels i32 [batch, sequence_length], learning_rate, step -> loss, grad_norm
//   eval      tokens, labels, weights f32 [batch, sequence_length], 1 for labels that count and
//             else 0 -> of each sequence, [batch]: loss, the sum over its labels in nats, without
//             dropout; predicted, how many those are; and of text bits_per_byte, the same sum in
//             bits, divided by the bytes of a token
//   decode    token i32 [1, 1], position i32 [1] -> logits [1, vocabulary] of what follows it
//   prefill   tokens i32 [1, sequence_length], last i32 [1] -> logits [1, vocabulary] of what
//             follows the token at `last`; those behind it have no part in that
// Text is written by the last two. Prefill leaves keys and values of every token to decode, in
// caches (Role::kCache); decode reads those of the places before its own and adds its own,
// whichever of the two ran before. A session has them in this order: how caches lie follows from
// who reads.
#ifndef SLUICE_MODELS_GPT_GPT_H_
#define SLUICE_MODELS_GPT_GPT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/graph/graph.h"
#include "framework/passes/mixed_precision.h"
#include "framework/passes/optimizer.h"

namespace sluice {

struct GptConfig {
  int64_t vocabulary = 256;  // bytes
  int64_t sequence_length = 128;
  int64_t layers = 6;
  int64_t heads = 6;     // must divide hidden
  int64_t hidden = 192;  // width of the residual stream; the MLP's is four times that
  int64_t batch = 16;
  double dropout = 0.1;          // of what is embedded and of what a block adds
  double attention_dropout = 0;  // of attention's weights
  bool library_draws = false;    // of the latter: CausalAttention of ops.h
  // Splits the residual stream over axis "model" along the sequence: norms, dropout and the sums of
  // a block are computed once instead of on every device of the axis, for the same bytes.
  bool sequence_split = false;
  PrecisionOptions precision = {};
  // Of the text that is evaluated; 0: it is not told in bits.
  double bytes_per_token = 0;
};

// For a mesh of so many pipeline stages. InvalidArgument says which size is out of range, what was
// expected and got.
absl::Status CheckGpt(const GptConfig& config, int64_t stages);

// Each layer is a block, so that a mesh may have as many pipeline stages as the model has layers.
// The graphs are finished.
absl::Status BuildGptTrain(const GptConfig& config, const OptimizerOptions& options, Graph* graph);
absl::Status BuildGptEval(const GptConfig& config, Graph* graph);
absl::Status BuildGptDecode(const GptConfig& config, Graph* graph);
absl::Status BuildGptPrefill(const GptConfig& config, Graph* graph);
// The forward part of the train program, with the output "loss": for passes of one's own.
absl::Status BuildGptLoss(const GptConfig& config, Graph* graph);

int64_t GptParameters(const GptConfig& config);
// Of forward and backward, by the usual count: 6 a weight, 12 * layers * hidden * length for
// attention, positions not counted.
double GptFlopsPerToken(const GptConfig& config);

}  // namespace sluice

#endif  // SLUICE_MODELS_GPT_GPT_H_
