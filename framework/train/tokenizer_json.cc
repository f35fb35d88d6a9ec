#include "framework/train/tokenizer_json.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/checkpoint/json.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

using Json = nlohmann::json;

absl::StatusOr<Json> ParseObject(absl::string_view text, absl::string_view file) {
  RETURN_IF_ERROR(CheckJsonObject(text, file));
  return Json::parse(text.begin(), text.end());
}

// An object of a file, by the path that leads to it, for errors.
class Part {
 public:
  Part(const Json& json, std::string path) : json_(json), path_(std::move(path)) {}

  // The value of a key; null where it is null or not there.
  const Json& Find(const char* key) const {
    static const Json& null = *new Json();
    const auto found = json_.is_object() ? json_.find(key) : json_.end();
    return found == json_.end() || !json_.is_object() ? null : *found;
  }
  Part At(const char* key) const { return {Find(key), absl::StrCat(path_, ": ", key)}; }
  Part At(const char* key, size_t index) const {
    return {Find(key)[index], absl::StrCat(path_, ": ", key, "[", index, "]")};
  }
  const Json& json() const { return json_; }
  const std::string& path() const { return path_; }

  absl::Status Unlike(absl::string_view expected) const {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": expected ", expected, ", got ", json_.dump().substr(0, 60)));
  }
  absl::Status Broken(absl::string_view expected) const {
    return absl::DataLossError(Unlike(expected).message());
  }
  // A key that is missing passes.
  absl::Status Expect(const char* key, const std::vector<Json>& known) const {
    const Json& value = Find(key);
    if (value.is_null() || std::find(known.begin(), known.end(), value) != known.end()) {
      return absl::OkStatus();
    }
    return At(key).Unlike(known[0].dump());
  }
  absl::StatusOr<std::optional<bool>> Bool(const char* key) const {
    const Json& value = Find(key);
    if (value.is_null()) return std::nullopt;
    if (!value.is_boolean()) return At(key).Broken("true or false");
    return value.get<bool>();
  }
  absl::StatusOr<std::optional<int64_t>> Count(const char* key) const {
    if (Find(key).is_null()) return std::nullopt;
    return At(key).Number();
  }
  // This part itself as one.
  absl::StatusOr<int64_t> Number() const {
    constexpr uint64_t kMost = 1'000'000'000;
    if (json_.is_number_unsigned() && json_.get<uint64_t>() <= kMost) return json_.get<int64_t>();
    return Broken(absl::StrCat("a number of at most ", kMost));
  }
  // The text of a token, which is written as one or as an object with its "content".
  absl::StatusOr<std::optional<std::string>> Token(const char* key) const {
    const Json& value = Find(key);
    if (value.is_null()) return std::nullopt;
    if (value.is_string()) return value.get<std::string>();
    const Json& content = At(key).Find("content");
    if (!content.is_string()) return At(key).Broken("a token's text");
    return content.get<std::string>();
  }

 private:
  const Json& json_;
  std::string path_;
};

absl::StatusOr<AddedToken> ReadAdded(const Part& token) {
  AddedToken added;
  ASSIGN_OR_RETURN(const std::optional<int64_t> id, token.Count("id"));
  const Json& content = token.Find("content");
  if (!id || !content.is_string()) return token.Broken("an added token with id and content");
  ASSIGN_OR_RETURN(const std::optional<bool> special, token.Bool("special"));
  return AddedToken{content.get<std::string>(), *id, special.value_or(false)};
}

absl::StatusOr<std::vector<AddedToken>> ReadAddedTokens(const Part& file) {
  std::vector<AddedToken> added;
  const Json& list = file.Find("added_tokens");
  if (list.is_null()) return added;
  if (!list.is_array()) return file.At("added_tokens").Broken("a list");
  for (size_t i = 0; i < list.size(); ++i) {
    ASSIGN_OR_RETURN(AddedToken token, ReadAdded(file.At("added_tokens", i)));
    added.push_back(std::move(token));
  }
  return added;
}

// Checks that a tokenizer.json has one model, of the type that is asked for.
absl::Status CheckModel(const Part& file, const char* type) {
  const Part model = file.At("model");
  if (!model.json().is_object()) return model.Broken("an object, as in a tokenizer.json");
  // Files of before 2020 do not say it.
  RETURN_IF_ERROR(model.Expect("type", {type}));
  if (!model.Find("vocab").is_object()) return model.At("vocab").Unlike("an object of tokens");
  return absl::OkStatus();
}

// The tokens of a vocabulary by their ids, which are 0, 1, .. .
absl::StatusOr<std::vector<std::string>> TokensById(const Part& vocabulary) {
  const Json& json = vocabulary.json();
  std::vector<const std::string*> by_id(json.size(), nullptr);
  for (const auto& [token, id] : json.get_ref<const Json::object_t&>()) {
    const bool fits = id.is_number_unsigned() && id.get<uint64_t>() < json.size() &&
                      by_id[id.get<uint64_t>()] == nullptr;
    if (!fits) {
      return absl::DataLossError(absl::StrCat(vocabulary.path(), ": expected ids from 0 to ",
                                              json.size() - 1, ", each once, got ",
                                              id.dump().substr(0, 30), " of ", token));
    }
    by_id[id.get<uint64_t>()] = &token;
  }
  std::vector<std::string> tokens;
  for (const std::string* token : by_id) tokens.push_back(*token);
  return tokens;
}

// Reads how a text is normalized before its words are cut.
absl::Status ReadNormalizer(const Part& file, TextNormalization* text) {
  const Part normalizer = file.At("normalizer");
  if (normalizer.Find("type") != "BertNormalizer") return normalizer.Unlike("a BertNormalizer");
  RETURN_IF_ERROR(normalizer.Expect("clean_text", {true}));
  ASSIGN_OR_RETURN(const std::optional<bool> chinese, normalizer.Bool("handle_chinese_chars"));
  ASSIGN_OR_RETURN(const std::optional<bool> lower, normalizer.Bool("lowercase"));
  ASSIGN_OR_RETURN(const std::optional<bool> accents, normalizer.Bool("strip_accents"));
  text->split_chinese = chinese.value_or(true);
  text->lower_case = lower.value_or(true);
  text->strip_accents = accents.value_or(text->lower_case);
  const Part words = file.At("pre_tokenizer");
  if (words.Find("type") != "BertPreTokenizer") return words.Unlike("a BertPreTokenizer");
  return absl::OkStatus();
}

// A merge is a text with a blank or, since tokenizers 0.20, a list of two.
absl::StatusOr<std::string> ReadMerge(const Part& merge) {
  const Json& json = merge.json();
  std::string line;
  if (json.is_string()) line = json.get<std::string>();
  if (json.is_array() && json.size() == 2 && json[0].is_string() && json[1].is_string()) {
    line = absl::StrCat(json[0].get<std::string>(), " ", json[1].get<std::string>());
  }
  const bool one_line = !absl::StrContains(line, '\n') && !absl::StrContains(line, '\r');
  if (one_line && std::count(line.begin(), line.end(), ' ') == 1) return line;
  return merge.Broken("two tokens");
}

// GPT-2's way to cut a text into words, and nothing else done to it.
absl::Status CheckByteLevel(const Part& file) {
  if (!file.Find("normalizer").is_null()) return file.At("normalizer").Unlike("none");
  const Part words = file.At("pre_tokenizer");
  if (words.Find("type") != "ByteLevel") return words.Unlike("ByteLevel");
  RETURN_IF_ERROR(words.Expect("add_prefix_space", {false}));
  RETURN_IF_ERROR(words.Expect("use_regex", {true}));
  const Part model = file.At("model");
  RETURN_IF_ERROR(model.Expect("dropout", {nullptr, 0.0}));
  RETURN_IF_ERROR(model.Expect("continuing_subword_prefix", {""}));
  RETURN_IF_ERROR(model.Expect("end_of_word_suffix", {""}));
  RETURN_IF_ERROR(model.Expect("ignore_merges", {false}));
  return model.Expect("byte_fallback", {false});
}

absl::StatusOr<std::vector<std::string>> ReadTexts(const Part& list) {
  std::vector<std::string> texts;
  if (list.json().is_null()) return texts;
  // transformers 5 has a list; transformers 4.5x also wrote an object of names and texts.
  for (const Json& value : list.json()) {
    const Part part(value, list.path());
    if (value.is_string()) {
      texts.push_back(value.get<std::string>());
    } else if (part.Find("content").is_string()) {
      texts.push_back(part.Find("content").get<std::string>());
    } else {
      return list.Broken("texts of tokens");
    }
  }
  return texts;
}

absl::Status ReadAddedDecoder(const Part& file, std::vector<AddedToken>* added) {
  const Part decoder = file.At("added_tokens_decoder");
  if (decoder.json().is_null()) return absl::OkStatus();
  if (!decoder.json().is_object()) return decoder.Broken("an object of ids and tokens");
  for (const auto& [id, value] : decoder.json().get_ref<const Json::object_t&>()) {
    const Part token(value, absl::StrCat(decoder.path(), ": ", id));
    AddedToken read;
    const Json& content = token.Find("content");
    if (!absl::SimpleAtoi(id, &read.id) || read.id < 0 || !content.is_string()) {
      return token.Broken("a token with content, by its id");
    }
    read.content = content.get<std::string>();
    ASSIGN_OR_RETURN(const std::optional<bool> special, token.Bool("special"));
    read.special = special.value_or(false);
    added->push_back(std::move(read));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<WordPieceJson> ParseWordPieceJson(absl::string_view text, absl::string_view name) {
  ASSIGN_OR_RETURN(const Json json, ParseObject(text, name));
  const Part file(json, std::string(name));
  RETURN_IF_ERROR(CheckModel(file, "WordPiece"));
  const Part model = file.At("model");
  RETURN_IF_ERROR(model.Expect("continuing_subword_prefix", {"##"}));
  WordPieceJson result;
  ASSIGN_OR_RETURN(result.pieces, TokensById(model.At("vocab")));
  ASSIGN_OR_RETURN(const std::optional<int64_t> longest, model.Count("max_input_chars_per_word"));
  ASSIGN_OR_RETURN(const std::optional<std::string> unknown, model.Token("unk_token"));
  if (longest) result.options.longest_word = *longest;
  if (unknown) result.options.special.unknown = *unknown;
  RETURN_IF_ERROR(ReadNormalizer(file, &result.options.text));
  ASSIGN_OR_RETURN(result.added, ReadAddedTokens(file));
  return result;
}

absl::StatusOr<BytePairJson> ParseBytePairJson(absl::string_view text, absl::string_view name) {
  ASSIGN_OR_RETURN(const Json json, ParseObject(text, name));
  const Part file(json, std::string(name));
  RETURN_IF_ERROR(CheckModel(file, "BPE"));
  RETURN_IF_ERROR(CheckByteLevel(file));
  const Part model = file.At("model");
  const Json& merges = model.Find("merges");
  if (!merges.is_array()) return model.At("merges").Broken("a list");
  BytePairJson result;
  for (size_t i = 0; i < merges.size(); ++i) {
    ASSIGN_OR_RETURN(const std::string line, ReadMerge(model.At("merges", i)));
    absl::StrAppend(&result.merges, line, "\n");
  }
  result.encoder = model.Find("vocab").dump();
  ASSIGN_OR_RETURN(result.added, ReadAddedTokens(file));
  return result;
}

absl::StatusOr<TokenizerConfig> ParseTokenizerConfig(absl::string_view text,
                                                     absl::string_view name) {
  ASSIGN_OR_RETURN(const Json json, ParseObject(text, name));
  const Part file(json, std::string(name));
  TokenizerConfig result;
  ASSIGN_OR_RETURN(const std::optional<std::string> kind, file.Token("tokenizer_class"));
  result.tokenizer_class = kind.value_or("");
  ASSIGN_OR_RETURN(result.lower_case, file.Bool("do_lower_case"));
  ASSIGN_OR_RETURN(result.strip_accents, file.Bool("strip_accents"));
  ASSIGN_OR_RETURN(result.split_chinese, file.Bool("tokenize_chinese_chars"));
  ASSIGN_OR_RETURN(const std::optional<bool> prefix_space, file.Bool("add_prefix_space"));
  result.add_prefix_space = prefix_space.value_or(false);
  ASSIGN_OR_RETURN(result.longest_word, file.Count("max_input_chars_per_word"));
  RETURN_IF_ERROR(file.Expect("do_basic_tokenize", {true}));
  RETURN_IF_ERROR(file.Expect("never_split", {Json::array()}));
  for (const char* key : {"pad_token", "unk_token", "cls_token", "sep_token", "mask_token"}) {
    ASSIGN_OR_RETURN(const std::optional<std::string> token, file.Token(key));
    if (token) result.special[key] = *token;
  }
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    ASSIGN_OR_RETURN(const std::vector<std::string> more, ReadTexts(file.At(key)));
    result.more_special.insert(result.more_special.end(), more.begin(), more.end());
  }
  RETURN_IF_ERROR(ReadAddedDecoder(file, &result.added));
  return result;
}

absl::StatusOr<std::vector<AddedToken>> ParseAddedTokens(absl::string_view text,
                                                         absl::string_view name) {
  ASSIGN_OR_RETURN(const Json json, ParseObject(text, name));
  const Part file(json, std::string(name));
  std::vector<AddedToken> added;
  for (const auto& [content, value] : json.get_ref<const Json::object_t&>()) {
    const Part id(value, absl::StrCat(name, ": ", content));
    ASSIGN_OR_RETURN(const int64_t number, id.Number());
    added.push_back({content, number, false});
  }
  return added;
}

}  // namespace sluice
