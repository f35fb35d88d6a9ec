// What a GPT learns from: the bytes of a file or a folder, or of this repository, with a bigram
// model of the same text as what it should beat. One thread.
#ifndef SLUICE_MODELS_GPT_TEXT_H_
#define SLUICE_MODELS_GPT_TEXT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/train/app.h"

namespace sluice {

// App::bundled of the trainer: this repository's sources and docs, packed into one file.
constexpr char kGptCorpus[] = "models/gpt/corpus.pack";

// Samples of `length` bytes. NotFound: there is no such text.
absl::StatusOr<AppData> OpenGptText(const AppOptions& options, int64_t length);

}  // namespace sluice

#endif  // SLUICE_MODELS_GPT_TEXT_H_
