// testdata/hub has tokenizers as transformers saved them, and what they make of awkward text;
// hub_tokenizers.py in that folder wrote both.
#include "framework/train/hub_tokenizer.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "framework/base/printable.h"
#include "framework/checkpoint/file.h"
#include "framework/train/hub_byte_pairs.h"
#include "framework/train/hub_word_pieces.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr char kHub[] = "framework/train/testdata/hub";
constexpr char kPieces[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";

std::string TextOf(const std::string& path) {
  const auto text = ReadText(path, 1 << 24);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.value_or("");
}

class HubTokenizerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/hub_tokenizer_" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = absl::StrCat(folder_, "/", name);
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  // A tokenizer.json of transformers with one place of it changed.
  void WriteJson(const std::string& which, const std::string& pointer, const Json& value) {
    Json json = Json::parse(TextOf(absl::StrCat(kHub, "/", which, "/tokenizer.json")));
    json[Json::json_pointer(pointer)] = value;
    Write(kTokenizerFile, json.dump());
  }
  // An error without the folder.
  template <typename Read>
  std::string Shown(const absl::StatusOr<Read>& read) {
    return absl::StrReplaceAll(read.status().message(), {{folder_ + "/", ""}});
  }
  std::string PiecesError() { return Shown(ReadWordPieces(folder_)); }
  std::string PairsError() { return Shown(ReadBytePairs(folder_)); }
  std::string folder_;
};

// A cased model keeps case and accents, and so do the files that are written of it.
TEST_F(HubTokenizerTest, CasedWordPiecesAreThoseOfTransformers) {
  const std::string theirs = absl::StrCat(kHub, "/cased");
  ASSERT_TRUE(HasWordPieces(theirs));
  const auto read = ReadWordPieces(theirs);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->where, theirs + "/tokenizer.json");
  const auto expect_golden = [&theirs](const WordPiece& pieces) {
    const Json golden = Json::parse(TextOf(theirs + "/golden.json"));
    ASSERT_GT(golden.size(), 25u);
    for (const Json& one : golden) {
      const std::string text = one["text"];
      std::vector<int32_t> ids;
      pieces.Encode(text, &ids);
      EXPECT_THAT(ids, ::testing::ElementsAreArray(one["ids"].get<std::vector<int32_t>>()))
          << Printable(text);
    }
  };
  expect_golden(read->pieces);
  // As a run keeps them.
  for (const auto& [name, text] : WordPieceFiles(read->pieces)) Write(name, text);
  EXPECT_EQ(Json::parse(TextOf(folder_ + "/tokenizer_config.json"))["do_lower_case"], false);
  const auto kept = ReadWordPieces(folder_);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->where, folder_ + "/vocab.txt");
  EXPECT_EQ(kept->pieces.digest(), read->pieces.digest());
  EXPECT_TRUE(kept->pieces.options() == read->pieces.options());
  expect_golden(kept->pieces);
  // And as they are exported: what transformers itself wrote.
  EXPECT_EQ(Json::parse(WordPieceTokenizerJson(read->pieces)),
            Json::parse(TextOf(theirs + "/tokenizer.json")));
  Write(kTokenizerFile, WordPieceTokenizerJson(read->pieces));
  EXPECT_EQ(ReadWordPieces(folder_)->pieces.digest(), read->pieces.digest());
}

TEST_F(HubTokenizerTest, BytePairsAreThoseOfTransformers) {
  const std::string theirs = absl::StrCat(kHub, "/gpt2");
  ASSERT_TRUE(HasBytePairs(theirs));
  const auto read = ReadBytePairs(theirs);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->pairs.size(), 265);
  EXPECT_EQ(read->pairs.end_of_text(), 264);
  const Json golden = Json::parse(TextOf(theirs + "/golden.json"));
  ASSERT_GT(golden.size(), 25u);
  for (const Json& one : golden) {
    const std::string text = one["text"];
    std::vector<int32_t> ids;
    read->pairs.Encode(text, &ids);
    EXPECT_THAT(ids, ::testing::ElementsAreArray(one["ids"].get<std::vector<int32_t>>()))
        << Printable(text);
  }
  // A merge was one text before tokenizers 0.20.
  const Json json = Json::parse(TextOf(theirs + "/tokenizer.json"));
  Json merges = Json::array();
  for (const Json& merge : json["model"]["merges"]) {
    merges.push_back(absl::StrCat(merge[0].get<std::string>(), " ", merge[1].get<std::string>()));
  }
  WriteJson("gpt2", "/model/merges", merges);
  EXPECT_EQ(ReadBytePairs(folder_)->pairs.digest(), read->pairs.digest());
  EXPECT_EQ(ReadBytePairs(folder_ + "/tokenizer.json")->pairs.digest(), read->pairs.digest());
  // As a run keeps them, and as the hub has them, with a tokenizer.json and without.
  for (const auto& files : {read->files, BytePairHubFiles(*read)}) {
    for (const auto& [name, text] : files) Write(name, text);
    EXPECT_EQ(ReadBytePairs(folder_)->pairs.digest(), read->pairs.digest());
    fs::remove(folder_ + "/tokenizer.json");
    EXPECT_EQ(ReadBytePairs(folder_)->pairs.digest(), read->pairs.digest());
    EXPECT_EQ(ReadBytePairs(folder_)->files, read->files);
    for (const auto& [name, text] : files) fs::remove(absl::StrCat(folder_, "/", name));
    EXPECT_FALSE(HasBytePairs(folder_));
  }
}

// The files before tokenizer.json say whether text is read in lower case, or nobody does.
TEST_F(HubTokenizerTest, CaseIsKeptWhereAFileSaysSo) {
  const std::string vocabulary = Write(kVocabularyFile, absl::StrCat(kPieces, "a\nBaro\nAccent\n"));
  EXPECT_EQ(
      PiecesError(),
      "vocab.txt, line 7: expected no capitals, as text is read in lower case, got \"Baro\"; a "
      "file tokenizer_config.json beside it says how it is read: {\"do_lower_case\": false} or "
      "true");
  const auto normalization = [&](const std::string& config) {
    Write(kTokenizerConfigFile, config);
    const auto read = ReadWordPieces(vocabulary);
    EXPECT_TRUE(read.ok()) << read.status();
    const TextNormalization text = read->pieces.options().text;
    return std::vector<bool>{text.lower_case, text.strip_accents, text.split_chinese};
  };
  using Says = std::vector<bool>;
  EXPECT_EQ(normalization(R"({"do_lower_case": false})"), (Says{false, false, true}));
  EXPECT_EQ(normalization(R"({"do_lower_case": true})"), (Says{true, true, true}));
  EXPECT_EQ(normalization(R"({"do_lower_case": true, "strip_accents": false})"),
            (Says{true, false, true}));
  EXPECT_EQ(normalization(R"({"do_lower_case": false, "strip_accents": true,
                              "tokenize_chinese_chars": false})"),
            (Says{false, true, false}));
  EXPECT_EQ(normalization(R"({"do_lower_case": false, "strip_accents": null})"),
            (Says{false, false, true}));
  // Without capitals nothing needs to be said.
  fs::remove(folder_ + "/tokenizer_config.json");
  Write(kVocabularyFile, absl::StrCat(kPieces, "a\n[unused0]\n"));
  EXPECT_TRUE(ReadWordPieces(folder_)->pieces.options().text == TextNormalization());
}

TEST_F(HubTokenizerTest, WhatReadsTextOtherwiseIsRefused) {
  Write(kVocabularyFile, absl::StrCat(kPieces, "a\n"));
  const auto config_error = [&](const std::string& config) {
    Write(kTokenizerConfigFile, config);
    return PiecesError();
  };
  EXPECT_THAT(config_error(R"({"tokenizer_class": "BertJapaneseTokenizer"})"),
              HasSubstr("tokenizer_config.json: tokenizer_class: expected BertTokenizer, got "
                        "BertJapaneseTokenizer"));
  EXPECT_EQ(config_error(R"({"do_basic_tokenize": false})"),
            "tokenizer_config.json: do_basic_tokenize: expected true, got false");
  EXPECT_EQ(config_error(R"({"never_split": ["a"]})"),
            "tokenizer_config.json: never_split: expected [], got [\"a\"]");
  EXPECT_EQ(config_error(R"({"do_lower_case": "no"})"),
            "tokenizer_config.json: do_lower_case: expected true or false, got \"no\"");
  EXPECT_EQ(config_error(R"({"unk_token": "<unk>"})"),
            "vocab.txt: expected a piece <unk>, got 6 others");
  EXPECT_THAT(config_error("["), HasSubstr("tokenizer_config.json: expected a JSON object"));
  fs::remove(folder_ + "/tokenizer_config.json");
  fs::remove(folder_ + "/vocab.txt");
  for (const auto& [pointer, value, error] :
       std::vector<std::tuple<std::string, Json, std::string>>{
           {"/model/type", "BPE", "model: type: expected \"WordPiece\", got \"BPE\""},
           {"/model/continuing_subword_prefix", "@@",
            "model: continuing_subword_prefix: expected \"##\", got \"@@\""},
           {"/model/vocab", Json::array({Json::array({"a", 0.5})}),
            "model: vocab: expected an object of tokens, got [[\"a\",0.5]]"},
           {"/model/vocab/Hello", 6, "model: vocab: expected ids from 0 to "},
           {"/model/vocab/two words ", 800, "model: vocab: expected ids from 0 to "},
           {"/normalizer", nullptr, "normalizer: expected a BertNormalizer, got null"},
           {"/normalizer/type", "Lowercase",
            "normalizer: expected a BertNormalizer, got {\"clean_text\":true"},
           {"/normalizer/clean_text", false, "normalizer: clean_text: expected true, got false"},
           {"/pre_tokenizer/type", "Whitespace",
            "pre_tokenizer: expected a BertPreTokenizer, got "},
           {"/added_tokens/0/id", "x", "added_tokens[0]: id: expected a number"},
           {"/added_tokens/0/id", 7,
            "expected the special token \"[PAD]\" of id 7, got \"World\""}}) {
    WriteJson("cased", pointer, value);
    EXPECT_THAT(PiecesError(), HasSubstr("tokenizer.json: " + error)) << pointer;
  }
  fs::remove(folder_ + "/tokenizer.json");
  EXPECT_THAT(PiecesError(),
              EndsWith("expected word pieces, vocab.txt or tokenizer.json, got neither"));
}

TEST_F(HubTokenizerTest, OtherBytePairsThanGpt2sAreRefused) {
  for (const auto& [pointer, value, error] :
       std::vector<std::tuple<std::string, Json, std::string>>{
           {"/model/type", "Unigram", "model: type: expected \"BPE\", got \"Unigram\""},
           {"/normalizer", {{"type", "NFC"}}, "normalizer: expected none, got {\"type\":\"NFC\"}"},
           {"/pre_tokenizer/add_prefix_space", true,
            "pre_tokenizer: add_prefix_space: expected false, got true"},
           {"/pre_tokenizer/use_regex", false,
            "pre_tokenizer: use_regex: expected true, got false"},
           {"/pre_tokenizer/type", "Metaspace", "pre_tokenizer: expected ByteLevel, got "},
           {"/model/ignore_merges", true, "model: ignore_merges: expected false, got true"},
           {"/model/byte_fallback", true, "model: byte_fallback: expected false, got true"},
           {"/model/end_of_word_suffix", "</w>",
            "model: end_of_word_suffix: expected \"\", got \"</w>\""},
           {"/model/merges/1", "a b c", "model: merges[1]: expected two tokens, got \"a b c\""},
           {"/model/merges/1", {"a", "b", "c"}, "model: merges[1]: expected two tokens, got ["},
           {"/model/merges/1",
            {"a", "zz"},
            "model: merges, line 2: expected tokens that have an id, and have one together, got "
            "\"a zz\""},
           {"/model/vocab/th", 3, "model: vocab: expected ids from 0 to 264, each once"}}) {
    WriteJson("gpt2", pointer, value);
    EXPECT_THAT(PairsError(), HasSubstr("tokenizer.json: " + error)) << pointer;
  }
  WriteJson("gpt2", "/model/dropout", nullptr);
  EXPECT_EQ(PairsError(), "");
  Write(kTokenizerConfigFile, R"({"add_prefix_space": true})");
  EXPECT_EQ(PairsError(),
            "tokenizer_config.json: add_prefix_space: expected false, as GPT-2 has it, got true");
  fs::remove(folder_ + "/tokenizer.json");
  fs::remove(folder_ + "/tokenizer_config.json");
  EXPECT_THAT(
      PairsError(),
      HasSubstr("expected byte pairs, vocab.json and merges.txt, encoder.json and vocab.bpe, "
                "or tokenizer.json, got none of them"));
}

// Two files must say the same, as other programs go by one or the other.
TEST_F(HubTokenizerTest, FilesThatContradictEachOtherAreRefused) {
  WriteJson("cased", "/truncation", nullptr);
  Write(kTokenizerConfigFile, R"({"do_lower_case": true})");
  EXPECT_EQ(
      PiecesError(),
      absl::StrCat("tokenizer_config.json: do_lower_case: expected false, as the normalizer of "
                   "tokenizer.json has it, got true"));
  Write(kTokenizerConfigFile, R"({"do_lower_case": false, "tokenize_chinese_chars": false})");
  EXPECT_THAT(PiecesError(), HasSubstr("tokenize_chinese_chars: expected true, as the normalizer"));
  Write(kTokenizerConfigFile, R"({"tokenizer_class": "PreTrainedTokenizerFast"})");
  EXPECT_EQ(PiecesError(), "");
  Write(kVocabularyFile, absl::StrCat(kPieces, "hello\n"));
  EXPECT_EQ(
      PiecesError(),
      "tokenizer.json: expected the pieces of vocab.txt, \"hello\" of id 5, got \"Hello\"; one "
      "of the two is another model's");
  WriteJson("gpt2", "/truncation", nullptr);
  const HubBytePairs pairs = *ReadBytePairs(folder_ + "/tokenizer.json");
  Write("vocab.json", pairs.files.at(kEncoderFile));
  Write("merges.txt", "t h\n");
  EXPECT_EQ(PairsError(),
            "tokenizer.json: expected the byte pairs of vocab.json, got others; one of the two is "
            "another model's");
}

// Special tokens have rows and never come out of a text; other tokens would.
TEST_F(HubTokenizerTest, TokensThatWereAddedAreKeptOrRefused) {
  Write(kVocabularyFile, absl::StrCat(kPieces, "a\n"));
  const std::string refused =
      "vocab.txt: expected special tokens alone to be added to the vocabulary, got \"<user>\" of "
      "id "
      "7, which would be looked for in texts before words are cut";
  // As transformers 4 has them.
  Write("added_tokens.json", R"({"[E1]": 6, "<user>": 7})");
  Write("special_tokens_map.json", R"({"additional_special_tokens": ["[E1]"],
                                       "mask_token": {"content": "[MASK]", "lstrip": false}})");
  EXPECT_EQ(PiecesError(), refused);
  Write("added_tokens.json", R"({"[E1]": 6, "[E2]": 9})");
  Write("special_tokens_map.json",
        R"({"additional_special_tokens": ["[E1]", {"content": "[E2]"}]})");
  const auto read = ReadWordPieces(folder_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->pieces.size(), 7);
  EXPECT_EQ(read->pieces.piece(6), "[E1]");
  // As transformers 4.35 and later has them.
  fs::remove(folder_ + "/added_tokens.json");
  fs::remove(folder_ + "/special_tokens_map.json");
  Write(kTokenizerConfigFile,
        R"({"added_tokens_decoder": {"0": {"content": "[PAD]", "special": true},
                                     "7": {"content": "<user>", "special": false}}})");
  EXPECT_EQ(PiecesError(), refused);
  Write(kTokenizerConfigFile,
        R"({"added_tokens_decoder": {"0": {"content": "[UNK]", "special": true}}})");
  EXPECT_EQ(PiecesError(),
            "vocab.txt: expected the special token \"[UNK]\" of id 0, got \"[PAD]\"");
  // And in tokenizer.json.
  fs::remove(folder_ + "/vocab.txt");
  fs::remove(folder_ + "/tokenizer_config.json");
  WriteJson("cased", "/added_tokens/0/special", false);
  EXPECT_THAT(PiecesError(), HasSubstr("tokenizer.json: expected special tokens alone"));
  WriteJson("gpt2", "/added_tokens/0/special", false);
  EXPECT_THAT(PairsError(), HasSubstr("tokenizer.json: expected special tokens alone"));
  // The end of a text may be only an added token, and not in the vocabulary.
  Json json = Json::parse(TextOf(absl::StrCat(kHub, "/gpt2/tokenizer.json")));
  json["model"]["vocab"].erase("<|endoftext|>");
  Write(kTokenizerFile, json.dump());
  EXPECT_EQ(ReadBytePairs(folder_)->pairs.digest(),
            ReadBytePairs(absl::StrCat(kHub, "/gpt2"))->pairs.digest());
}

}  // namespace
}  // namespace sluice
