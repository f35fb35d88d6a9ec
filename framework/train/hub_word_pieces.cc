#include "framework/train/hub_word_pieces.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "framework/base/printable.h"
#include "framework/base/status.h"
#include "framework/checkpoint/file.h"
#include "framework/train/hub_tokenizer.h"
#include "framework/train/paths.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Which files of a tokenizer are to be read; empty: there is none of that kind.
struct Files {
  std::string folder;
  std::string vocabulary;  // vocab.txt
  std::string json;        // tokenizer.json
};

Files FindWordPieceFiles(const std::string& path) {
  Files files = {TokenizerFolder(path), "", ""};
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    (absl::EndsWith(path, ".json") ? files.json : files.vocabulary) = path;
    return files;
  }
  if (PathExists(PathIn(path, kVocabularyFile))) files.vocabulary = PathIn(path, kVocabularyFile);
  if (PathExists(PathIn(path, kTokenizerFile))) files.json = PathIn(path, kTokenizerFile);
  return files;
}

// Returns all pieces by id, those that were added after the others. A special token that was added
// with a gap stays out: no text has it.
absl::StatusOr<std::vector<std::string>> WithAdded(const std::string& where,
                                                   std::vector<std::string> pieces,
                                                   std::vector<AddedToken> added) {
  std::sort(added.begin(), added.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  for (const AddedToken& token : added) {
    const auto size = static_cast<int64_t>(pieces.size());
    if (token.id == size) pieces.push_back(token.content);
    if (token.id >= size || pieces[token.id] == token.content) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": expected the special token \"", PrintableLine(token.content),
                     "\" of id ", token.id, ", got \"", PrintableLine(pieces[token.id]), "\""));
  }
  return pieces;
}

SpecialPieces SpecialOf(const TokenizerConfig& config, const SpecialPieces& otherwise) {
  SpecialPieces special = otherwise;
  for (const auto& [key, to] :
       {std::pair{"pad_token", &special.padding}, std::pair{"unk_token", &special.unknown},
        std::pair{"cls_token", &special.classify}, std::pair{"sep_token", &special.separator},
        std::pair{"mask_token", &special.mask}}) {
    const auto found = config.special.find(key);
    if (found != config.special.end()) *to = found->second;
  }
  return special;
}

// Returns how text is read, as tokenizer_config.json and tokenizer.json say. transformers follows
// the first and tokenizers the second, so that where both speak they must say the same.
absl::StatusOr<WordPieceOptions> OptionsOf(const Files& files, const TokenizerConfig& config,
                                           const std::optional<WordPieceJson>& json) {
  WordPieceOptions options = json ? json->options : WordPieceOptions();
  if (!json && config.lower_case) {
    options.text.lower_case = options.text.strip_accents = *config.lower_case;
  }
  for (const auto& [key, said, to] :
       {std::tuple{"do_lower_case", config.lower_case, &options.text.lower_case},
        std::tuple{"strip_accents", config.strip_accents, &options.text.strip_accents},
        std::tuple{"tokenize_chinese_chars", config.split_chinese, &options.text.split_chinese}}) {
    if (!said || *said == *to) continue;
    if (json) {
      return absl::InvalidArgumentError(
          absl::StrCat(PathIn(files.folder, kTokenizerConfigFile), ": ", key, ": expected ",
                       *to ? "true" : "false", ", as the normalizer of ", files.json,
                       " has it, got ", *said ? "true" : "false"));
    }
    *to = *said;
  }
  if (config.longest_word) options.longest_word = *config.longest_word;
  options.special = SpecialOf(config, options.special);
  return options;
}

// Classes whose vocab.txt is read as BERT's.
absl::Status CheckClass(const Files& files, const TokenizerConfig& config) {
  static constexpr absl::string_view kKnown[] = {"", "Bert", "DistilBert", "Electra"};
  absl::string_view name = config.tokenizer_class;
  if (!absl::ConsumeSuffix(&name, "TokenizerFast")) absl::ConsumeSuffix(&name, "Tokenizer");
  if (std::find(std::begin(kKnown), std::end(kKnown), name) != std::end(kKnown)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(PathIn(files.folder, kTokenizerConfigFile),
                   ": tokenizer_class: expected BertTokenizer, got ", config.tokenizer_class,
                   "; a ", kTokenizerFile, " that says how its text is read is taken as well"));
}

// Text in lower case has no capitals. Special pieces are in brackets as a rule, and so are those
// that are not used.
absl::Status CheckCapitals(const WordPiece& pieces, const std::string& file) {
  for (int32_t id = 0; id < pieces.size(); ++id) {
    const std::string& piece = pieces.piece(id);
    const bool bracketed = absl::StartsWith(piece, "[") && absl::EndsWith(piece, "]");
    const bool capital = std::any_of(piece.begin(), piece.end(), [](char c) {
      return absl::ascii_isupper(static_cast<unsigned char>(c));
    });
    if (!capital || bracketed || pieces.IsSpecial(id)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        file, ", line ", id + 1, ": expected no capitals, as text is read in lower case, got \"",
        PrintableLine(piece), "\"; a file ", kTokenizerConfigFile,
        " beside it says how it is read: {\"do_lower_case\": false} or true"));
  }
  return absl::OkStatus();
}

absl::Status CheckSamePieces(const Files& files, const std::vector<std::string>& json,
                             const WordPiece& vocabulary) {
  const auto count = static_cast<int64_t>(json.size());
  for (int64_t id = 0; id < std::min(count, vocabulary.size()); ++id) {
    const std::string& piece = vocabulary.piece(static_cast<int32_t>(id));
    if (json[id] == piece) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(files.json, ": expected the pieces of ", files.vocabulary, ", \"",
                     PrintableLine(piece), "\" of id ", id, ", got \"", PrintableLine(json[id]),
                     "\"; one of the two is another model's"));
  }
  return absl::OkStatus();
}

absl::StatusOr<WordPiece> ReadVocabulary(const Files& files, const TokenizerConfig& config,
                                         const WordPieceOptions& options) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(files.vocabulary, kTokenizerLimit));
  ASSIGN_OR_RETURN(WordPiece pieces, WordPiece::Parse(files.vocabulary, text, options));
  if (config.added.empty()) return pieces;
  RETURN_IF_ERROR(CheckAddedTokens(files.vocabulary, config.added, config));
  std::vector<std::string> all;
  for (int32_t id = 0; id < pieces.size(); ++id) all.push_back(pieces.piece(id));
  ASSIGN_OR_RETURN(all, WithAdded(files.vocabulary, std::move(all), config.added));
  return WordPiece::Parse(files.vocabulary, absl::StrJoin(all, "\n"), options);
}

absl::StatusOr<WordPiece> OfJson(const Files& files, const std::vector<std::string>& pieces,
                                 const WordPieceOptions& options) {
  ASSIGN_OR_RETURN(WordPiece read,
                   WordPiece::Parse(files.json, absl::StrJoin(pieces, "\n"), options));
  // A vocab.txt, which a run keeps, has neither blanks at an end nor ends of line in a piece.
  for (size_t id = 0; id < pieces.size(); ++id) {
    if (read.size() == static_cast<int64_t>(pieces.size()) && read.piece(id) == pieces[id])
      continue;
    return absl::InvalidArgumentError(absl::StrCat(
        files.json, ": model: vocab: expected pieces without blanks at their ends, got \"",
        PrintableLine(pieces[id]), "\""));
  }
  return read;
}

}  // namespace

bool HasWordPieces(const std::string& folder) {
  return PathExists(PathIn(folder, kVocabularyFile)) || PathExists(PathIn(folder, kTokenizerFile));
}

absl::StatusOr<HubWordPieces> ReadWordPieces(const std::string& path) {
  const Files files = FindWordPieceFiles(path);
  if (files.vocabulary.empty() && files.json.empty()) {
    return absl::NotFoundError(absl::StrCat(path, ": expected word pieces, ", kVocabularyFile,
                                            " or ", kTokenizerFile, ", got neither"));
  }
  ASSIGN_OR_RETURN(const TokenizerConfig config, ReadTokenizerConfig(files.folder));
  std::optional<WordPieceJson> json;
  if (!files.json.empty()) {
    ASSIGN_OR_RETURN(const std::string text, ReadText(files.json, kTokenizerLimit));
    ASSIGN_OR_RETURN(json, ParseWordPieceJson(text, files.json));
    RETURN_IF_ERROR(CheckAddedTokens(files.json, json->added, config));
  } else {
    RETURN_IF_ERROR(CheckClass(files, config));
  }
  ASSIGN_OR_RETURN(const WordPieceOptions options, OptionsOf(files, config, json));
  if (!json) {
    ASSIGN_OR_RETURN(WordPiece pieces, ReadVocabulary(files, config, options));
    if (!config.lower_case) RETURN_IF_ERROR(CheckCapitals(pieces, files.vocabulary));
    return HubWordPieces{std::move(pieces), files.vocabulary};
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> all,
                   WithAdded(files.json, json->pieces, json->added));
  if (!files.vocabulary.empty()) {
    ASSIGN_OR_RETURN(const WordPiece other, ReadVocabulary(files, config, options));
    RETURN_IF_ERROR(CheckSamePieces(files, all, other));
  }
  ASSIGN_OR_RETURN(WordPiece pieces, OfJson(files, all, options));
  return HubWordPieces{std::move(pieces), files.json};
}

std::map<std::string, std::string> WordPieceFiles(const WordPiece& pieces) {
  std::string text;
  for (int32_t id = 0; id < pieces.size(); ++id) absl::StrAppend(&text, pieces.piece(id), "\n");
  const WordPieceOptions& options = pieces.options();
  const TextNormalization& of = options.text;
  Json config = {
      {"tokenizer_class", "BertTokenizer"},
      {"do_lower_case", of.lower_case},
      // Not said, they are stripped where text is read in lower case.
      {"strip_accents", of.strip_accents == of.lower_case ? Json() : Json(of.strip_accents)},
      {"tokenize_chinese_chars", of.split_chinese},
      {"pad_token", options.special.padding},
      {"unk_token", options.special.unknown},
      {"cls_token", options.special.classify},
      {"sep_token", options.special.separator},
      {"mask_token", options.special.mask}};
  if (options.longest_word != WordPieceOptions().longest_word) {
    config["max_input_chars_per_word"] = options.longest_word;
  }
  return {{kVocabularyFile, text}, {kTokenizerConfigFile, config.dump(2) + "\n"}};
}

std::string WordPieceTokenizerJson(const WordPiece& pieces) {
  const WordPieceOptions& options = pieces.options();
  const TextNormalization& of = options.text;
  Json vocabulary = Json::object(), added = Json::array();
  for (int32_t id = 0; id < pieces.size(); ++id) {
    vocabulary[pieces.piece(id)] = id;
    if (!pieces.IsSpecial(id)) continue;
    added.push_back({{"id", id},
                     {"content", pieces.piece(id)},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const SpecialPieces& special = options.special;
  const auto token = [](const std::string& name, int segment) -> Json {
    return {{"SpecialToken", {{"id", name}, {"type_id", segment}}}};
  };
  const auto sequence = [](const char* name, int segment) -> Json {
    return {{"Sequence", {{"id", name}, {"type_id", segment}}}};
  };
  const auto entry = [](const std::string& name, int32_t id) -> Json {
    return {{"id", name}, {"ids", {id}}, {"tokens", {name}}};
  };
  const Json first = token(special.classify, 0), end = token(special.separator, 0),
             last = token(special.separator, 1), a = sequence("A", 0), b = sequence("B", 1);
  const Json json = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added},
      {"normalizer",
       {{"type", "BertNormalizer"},
        {"clean_text", true},
        {"handle_chinese_chars", of.split_chinese},
        {"strip_accents", of.strip_accents == of.lower_case ? Json() : Json(of.strip_accents)},
        {"lowercase", of.lower_case}}},
      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single", {first, a, end}},
        {"pair", {first, a, end, b, last}},
        {"special_tokens",
         {{special.classify, entry(special.classify, pieces.classify())},
          {special.separator, entry(special.separator, pieces.separator())}}}}},
      {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
      {"model",
       {{"type", "WordPiece"},
        {"unk_token", special.unknown},
        {"continuing_subword_prefix", "##"},
        {"max_input_chars_per_word", options.longest_word},
        {"vocab", vocabulary}}}};
  return json.dump(2) + "\n";
}

}  // namespace sluice
