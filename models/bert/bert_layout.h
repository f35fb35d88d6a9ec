// Hugging Face's BERT: a folder with config.json, model.safetensors or shards of it, and word
// pieces. Same model, other names; matrices are [out, in] there and are stored transposed here,
// bytes are moved and never computed with: there and back is bitwise. One thread.
#ifndef SLUICE_MODELS_BERT_BERT_LAYOUT_H_
#define SLUICE_MODELS_BERT_BERT_LAYOUT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/train/weight_layout.h"

namespace sluice {

// Writes the parameters of a checkpoint as `folder`, with the vocabulary of its run if that has
// one: BertForPreTraining, or BertForSequenceClassification of a checkpoint with classes. Optimizer
// state stays behind. The number of heads is in no shape: it is what the checkpoint's options say.
// `folder` is new, empty or an older export, as ExportWeights has it. Returns the names of the
// files.
absl::StatusOr<std::vector<std::string>> ExportBert(const std::string& checkpoint,
                                                    const std::string& folder,
                                                    const ExportOptions& options = {});

// Writes the model of `folder` as <out>/step-000000, which --init and, where no head is missing,
// --resume take up; its vocabulary becomes the run's, cased or not. Takes names under any prefix,
// with and without "bert.", LayerNorm.gamma and beta of old files, and models with none, some or
// all of the heads for masked words, next sentence and classes. Errors name what this model cannot
// be: another kind or task, another activation, epsilon or width of the MLP, an untied head, a
// tensor missing, unknown, of another shape or not finite; no vocabulary, or one that reads text
// otherwise.
absl::StatusOr<ImportedWeights> ImportBert(const std::string& folder, const std::string& out);

}  // namespace sluice

#endif  // SLUICE_MODELS_BERT_BERT_LAYOUT_H_
