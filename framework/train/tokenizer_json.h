// Parsers of the files that describe a tokenizer in a folder of Hugging Face's hub; hub_tokenizer.h
// says what a folder's files come to together. The files come from anywhere: each parser takes any
// bytes, and its errors begin with the file's name. Pure.
#ifndef SLUICE_FRAMEWORK_TRAIN_TOKENIZER_JSON_H_
#define SLUICE_FRAMEWORK_TRAIN_TOKENIZER_JSON_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/data/word_piece.h"

namespace sluice {

// A token that was added to a vocabulary. One that is special never comes out of a text; another is
// looked for in texts before anything else is done with them, which no tokenizer here does.
struct AddedToken {
  std::string content;
  int64_t id = 0;
  bool special = false;
};

// tokenizer.json of a model "WordPiece".
struct WordPieceJson {
  std::vector<std::string> pieces;  // by id
  WordPieceOptions options;         // of `special` only the unknown piece is said
  std::vector<AddedToken> added;
};
// InvalidArgument: it is another kind of tokenizer, or does with text what WordPiece here does not;
// DataLoss: it is no tokenizer.json.
absl::StatusOr<WordPieceJson> ParseWordPieceJson(absl::string_view text, absl::string_view file);

// tokenizer.json of a model "BPE" over bytes, as GPT-2 has it.
struct BytePairJson {
  std::string encoder;  // as encoder.json (byte_pair.h)
  std::string merges;   // as vocab.bpe, without the line "#version"
  std::vector<AddedToken> added;
};
// Errors as ParseWordPieceJson's.
absl::StatusOr<BytePairJson> ParseBytePairJson(absl::string_view text, absl::string_view file);

// tokenizer_config.json, or special_tokens_map.json, which has some of the same keys.
struct TokenizerConfig {
  std::string tokenizer_class;  // empty: not said
  std::optional<bool> lower_case, strip_accents, split_chinese;
  bool add_prefix_space = false;
  std::map<std::string, std::string> special;  // "unk_token" .. and their text
  std::vector<std::string> more_special;       // texts of others that never come out of a text
  std::vector<AddedToken> added;
  std::optional<int64_t> longest_word;
};
// InvalidArgument: it asks for something else than WordPiece here does with text; DataLoss: it is
// no such file.
absl::StatusOr<TokenizerConfig> ParseTokenizerConfig(absl::string_view text,
                                                     absl::string_view file);

// added_tokens.json: texts and ids; `special` is not said, and false.
absl::StatusOr<std::vector<AddedToken>> ParseAddedTokens(absl::string_view text,
                                                         absl::string_view file);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_TOKENIZER_JSON_H_
