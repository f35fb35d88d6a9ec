// BERT (Devlin et al. 2018): an encoder over word pieces, as Google's and Hugging Face's have it:
// norms after attention and MLP, biases, one table for the embedding and the masked words' logits.
// Pre-training guesses masked words and whether the second segment follows the first:
//   tokens, segments  i32 [batch, length]
//   length            i32 [batch]: positions from there on are padding
//   positions, labels i32 [batch, predictions]: where words were masked, and which they were
//   weights           f32 [batch, predictions]: 1 for each masked word, 0 for what fills the row
//   masked_words      f32 [batch]: how many masked words each sample has, the sum of its weights
//   next              i32 [batch]: 0 where the second segment follows the first, 1 where it is from
//                     elsewhere
// Fine-tuning tells texts apart by their first token:
//   tokens, segments, length as above, label i32 [batch]
//
// The train programs also take learning_rate and step, and give loss and grad_norm. The loss of
// pre-training is the mean over all masked words of the batch, as Google's and Hugging Face's code
// have it, plus the mean loss of next sentences. It does not depend on how the batch is split.
// The eval programs give a value for each sample, [batch]:
//   pre-training  masked_loss, the sum over its masked_words; masked_words; next_loss and
//                 next_accuracy, 1 or 0
//   fine-tuning   loss; accuracy, 1 or 0
#ifndef SLUICE_MODELS_BERT_BERT_H_
#define SLUICE_MODELS_BERT_BERT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "framework/graph/graph.h"
#include "framework/passes/mixed_precision.h"
#include "framework/passes/optimizer.h"

namespace sluice {

struct BertConfig {
  int64_t vocabulary = 30522;
  int64_t sequence_length = 128;
  int64_t positions = 0;  // that have an embedding; 0: sequence_length, which is no more
  int64_t layers = 12;
  int64_t heads = 12;        // must divide hidden
  int64_t hidden = 768;      // the MLP's width is four times that
  int64_t predictions = 20;  // masked words of a sample at most
  int64_t classes = 0;       // 0: pre-training
  int64_t batch = 8;
  double dropout = 0.1;          // of what is embedded and of what a block adds
  double attention_dropout = 0;  // of attention's weights
  bool tanh_gelu = false;        // Google's first code has the tanh form, Hugging Face's "gelu" erf
  PrecisionOptions precision = {};
};

// For a mesh of so many pipeline stages. InvalidArgument says which size is out of range, what was
// expected and got.
absl::Status CheckBert(const BertConfig& config, int64_t stages);

// Each layer is a block, so that a mesh may have as many pipeline stages as the model has layers.
// The graphs are finished.
absl::Status BuildBertTrain(const BertConfig& config, const OptimizerOptions& options,
                            Graph* graph);
absl::Status BuildBertEval(const BertConfig& config, Graph* graph);
// The forward part of the train program, with the output "loss": for passes of one's own.
absl::Status BuildBertLoss(const BertConfig& config, Graph* graph);
// tokens, segments, length -> hidden [batch, length, hidden], of the last layer without dropout.
absl::Status BuildBertEncoder(const BertConfig& config, Graph* graph);
// What the heads say, without dropout: tokens, segments, length, positions
//   -> masked [batch, predictions, vocabulary], next [batch, 2]
// or, of a model with classes, tokens, segments, length -> classes [batch, classes].
absl::Status BuildBertLogits(const BertConfig& config, Graph* graph);

}  // namespace sluice

#endif  // SLUICE_MODELS_BERT_BERT_H_
