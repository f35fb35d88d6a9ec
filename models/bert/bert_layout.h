// Hugging Face's BERT: a folder with model.safetensors, config.json and vocab.txt. Same model,
// other names; matrices are [out, in] there and lie transposed here, bytes are moved and never
// computed with: there and back is bitwise. One thread.
#ifndef SLUICE_MODELS_BERT_BERT_LAYOUT_H_
#define SLUICE_MODELS_BERT_BERT_LAYOUT_H_

#include <string>

#include "absl/status/statusor.h"
#include "framework/checkpoint/file.h"
#include "framework/train/weight_layout.h"

namespace sluice {

// Writes the parameters of a checkpoint as `folder`, with the vocabulary of its run if that has
// one: BertForPreTraining, or BertForSequenceClassification of a checkpoint with classes. Optimizer
// state stays behind. The number of heads is in no shape: it is what the checkpoint's options say.
// `folder` is new, empty or an older export, as ExportWeights has it. Gives the names of the files.
absl::StatusOr<std::string> ExportBert(const std::string& checkpoint, const std::string& folder,
                                       FileFaults* faults = nullptr);

// Writes the model of `folder` as <out>/step-000000, which --init and, where no head is missing,
// --resume take up; a vocab.txt goes beside `out`, where a run has it. Takes names with and without
// "bert.", LayerNorm.gamma and beta of old files, and models with none, some or all of the heads
// for masked words, next sentence and classes. Errors name what this model cannot be: another
// activation, epsilon or width of the MLP, an untied head, a tensor missing, unknown or of another
// shape.
absl::StatusOr<ImportedWeights> ImportBert(const std::string& folder, const std::string& out);

}  // namespace sluice

#endif  // SLUICE_MODELS_BERT_BERT_LAYOUT_H_
