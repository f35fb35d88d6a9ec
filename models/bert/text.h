// What a BERT learns from: documents with masked words, or texts with a class each; and the
// vocabulary of word pieces that it reads them by. One thread.
#ifndef SLUICE_MODELS_BERT_TEXT_H_
#define SLUICE_MODELS_BERT_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "framework/train/app.h"
#include "models/bert/bert.h"

namespace sluice {

// Documents, where config.classes is 0: of a file (text_documents.h), of a file NAME-train.tab or
// of all such in a folder. Classes: of a file (labelled_text.h), or of reuters-r8-train.tab in a
// folder.
//
// The vocabulary is that of the run that is resumed, of `vocabulary_file`, of the run that --init
// names, or else one of at most config.vocabulary pieces that is learned from the text. A run keeps
// it in its folder as vocab.txt, with tokenizer_config.json. Errors name the file, what was
// expected and got: among them a vocabulary that is missing, or another one, where rows of an
// embedding are taken over. NotFound: the data is not there.
//
// Classes are in ascending order or, where the run of --resume or --init names them
// (class_names.h), in the order that they have there.
absl::StatusOr<AppData> OpenBertText(const AppOptions& options, const BertConfig& config,
                                     const std::string& vocabulary_file);
// Are there texts of so many classes? For a run that tells them apart later.
absl::Status CheckClasses(const AppOptions& options, int64_t classes);

}  // namespace sluice

#endif  // SLUICE_MODELS_BERT_TEXT_H_
