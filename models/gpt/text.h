// What a GPT learns from: a file or a folder of text, or this repository, as bytes or as byte
// pairs, with a bigram model of the same bytes as what it should beat; or tokens in files
// (token_file.h). One thread.
#ifndef SLUICE_MODELS_GPT_TEXT_H_
#define SLUICE_MODELS_GPT_TEXT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/train/app.h"
#include "models/gpt/gpt.h"
#include "models/gpt/tokenizer.h"

namespace sluice {

// App::bundled of the trainer: this repository's sources and docs, packed into one file.
constexpr char kGptCorpus[] = "models/gpt/corpus.pack";

struct GptData {
  AppData data;
  double bytes_per_token = 0;  // of what is held out; 0: nobody knows
};

// Samples of as many tokens as the model sees at once. --data is text (text_corpus.h), or a file
// ".bin" of tokens, of which the last tenth is held out, or a folder of one "..train.bin" and one
// "..val.bin", which is held out. With `raw_bytes` it is bytes of any kind, in any file. NotFound:
// there is none. InvalidArgument: a file that is no text, a token that the model does not have, or
// text without a tokenizer.
absl::StatusOr<GptData> OpenGptText(const AppOptions& options, const GptConfig& config,
                                    const RunTokenizer& tokenizer, bool raw_bytes = false);

}  // namespace sluice

#endif  // SLUICE_MODELS_GPT_TEXT_H_
