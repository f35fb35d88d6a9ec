// Text as files of tokens, for runs that are not to make them anew each time, here and elsewhere.
#ifndef SLUICE_MODELS_GPT_TOKENIZE_H_
#define SLUICE_MODELS_GPT_TOKENIZE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/data/token_file.h"
#include "models/gpt/tokenizer.h"

namespace sluice {

// "nanogpt", "llm.c" or "megatron".
absl::StatusOr<TokenFormat> ParseTokenFormat(absl::string_view name);

struct TokenizedText {
  int64_t bytes = 0, training = 0, held_out = 0;  // of text; tokens
  double seconds = 0;                             // that making tokens took
};

// Writes train.bin and val.bin, of Megatron's with their .idx, into the folder `out`: the text at
// `data` (text_corpus.h), split as a run splits it, so that a run of the folder sees what a run of
// the text sees. An older file is replaced.
absl::StatusOr<TokenizedText> WriteTokensOf(const std::string& data, const Tokenizer& tokenizer,
                                            TokenFormat format, const std::string& out);

}  // namespace sluice

#endif  // SLUICE_MODELS_GPT_TOKENIZE_H_
