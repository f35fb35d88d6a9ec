#include "framework/data/byte_pair.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "framework/base/printable.h"
#include "framework/data/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kFolder[] = "framework/data/testdata/byte_pair";

class BytePairTest : public ::testing::Test {
 protected:
  static std::string Text(absl::string_view name) {
    return *ReadFile(absl::StrCat(kFolder, "/", name));
  }
  std::vector<int32_t> Encoded(absl::string_view text) const {
    std::vector<int32_t> tokens;
    byte_pair_.Encode(text, &tokens);
    return tokens;
  }

  BytePair byte_pair_ =
      *BytePair::Parse("e.json", Text("encoder.json"), "v.bpe", Text("vocab.bpe"));
};

// testdata/tokenizers_golden.py makes it.
TEST_F(BytePairTest, EqualsTiktoken) {
  std::ifstream file(absl::StrCat(kFolder, "/golden.json"));
  const auto cases = nlohmann::json::parse(file);
  ASSERT_GT(cases.size(), 40);
  EXPECT_EQ(byte_pair_.size(), 2257);
  EXPECT_EQ(byte_pair_.end_of_text(), 2256);
  for (const auto& one : cases) {
    const std::string text = one["text"];
    SCOPED_TRACE(Printable(text.substr(0, 200)));
    EXPECT_THAT(Encoded(text),
                ::testing::ElementsAreArray(one["tokens"].get<std::vector<int32_t>>()));
    EXPECT_EQ(*byte_pair_.Decode(Encoded(text)), text);
  }
}

TEST_F(BytePairTest, WordsAreThoseOfThePattern) {
  const auto words = [](absl::string_view text) {
    std::vector<std::string> result;
    while (!text.empty()) {
      result.emplace_back(text.substr(0, FirstWord(text)));
      text.remove_prefix(result.back().size());
    }
    return result;
  };
  EXPECT_THAT(words("I'll say 'tis, it''s"),
              ElementsAre("I", "'ll", " say", " '", "tis", ",", " it", "''", "s"));
  EXPECT_THAT(words("a  b\n\nc \n"), ElementsAre("a", " ", " b", "\n", "\n", "c", " \n"));
  EXPECT_THAT(words("x86\u00e9 \u00bd\u2167!?\u00a0z"),
              ElementsAre("x", "86", "\u00e9", " \u00bd\u2167", "!?", "\u00a0", "z"));
  EXPECT_THAT(words("a\xff\xfe b"), ElementsAre("a", "\xff\xfe", " b"));
  EXPECT_THAT(words(" "), ElementsAre(" "));
}

TEST_F(BytePairTest, AnyBytesComeBack) {
  std::string bytes;
  for (int i = 0; i < 70000; ++i) bytes.push_back(static_cast<char>(int64_t{i} * i >> 3));
  EXPECT_EQ(*byte_pair_.Decode(Encoded(bytes)), bytes);
  EXPECT_TRUE(Encoded("").empty());
}

TEST_F(BytePairTest, AppendsToWhatIsThere) {
  std::vector<int32_t> tokens = {9, 8};
  byte_pair_.Encode("the the the", &tokens);
  const std::vector<int32_t> alone = Encoded("the the the");
  EXPECT_EQ(std::vector<int32_t>(tokens.begin() + 2, tokens.end()), alone);
  EXPECT_EQ(tokens[0], 9);
}

// One word of a million letters: hours where the best pair is looked for anew each time.
TEST_F(BytePairTest, AWordMayBeAsLongAsAText) {
  std::string text;
  for (int i = 0; i < 1000000; ++i) text.push_back(static_cast<char>('a' + i * 7 % 11));
  EXPECT_EQ(*byte_pair_.Decode(Encoded(text)), text);
}

TEST_F(BytePairTest, TextIsNoSpecialToken) {
  EXPECT_THAT(Encoded("a<|endoftext|>b"),
              ::testing::Not(::testing::Contains(byte_pair_.end_of_text())));
  EXPECT_EQ(*byte_pair_.Decode({byte_pair_.end_of_text()}), "<|endoftext|>");
}

TEST_F(BytePairTest, NamesATokenThatIsNone) {
  EXPECT_EQ(byte_pair_.Decode({5, 2257}).status().message(),
            "expected tokens from 0 to 2256, got 2257 at place 1");
  EXPECT_EQ(byte_pair_.Decode({-1}).status().code(), absl::StatusCode::kOutOfRange);
}

TEST_F(BytePairTest, NamesWhatIsWrongWithFiles) {
  const std::string encoder = *ReadFile(absl::StrCat(kFolder, "/encoder.json"));
  const auto of_encoder = [](const std::string& text) {
    return std::string(BytePair::Parse("e.json", text, "v.bpe", "").status().message());
  };
  const auto of_merges = [&encoder](const std::string& text) {
    return std::string(BytePair::Parse("e.json", encoder, "v.bpe", text).status().message());
  };
  EXPECT_EQ(of_encoder("[1]"), "e.json: expected a JSON object of tokens and their ids");
  EXPECT_EQ(of_encoder("{\"a\": 0"), "e.json: expected a JSON object of tokens and their ids");
  EXPECT_EQ(of_encoder(R"({"a": 0, "b": 2})"),
            "e.json: expected ids from 0 to 1, each once, got another of \"b\"");
  EXPECT_EQ(of_encoder(R"({"a": 0, "b": 0})"),
            "e.json: expected ids from 0 to 1, each once, got 0 again of \"b\"");
  EXPECT_THAT(of_encoder(R"({"a": -1})"), HasSubstr("got another of \"a\""));
  EXPECT_THAT(of_encoder(R"({"a b": 0})"),
              HasSubstr("characters that stand for bytes, got \"a b\""));
  EXPECT_THAT(of_encoder(R"({"": 0})"), HasSubstr("tokens of other bytes each"));
  EXPECT_EQ(of_encoder(R"({"a": 0})"),
            "e.json: expected a token for each byte, got none for byte 0");
  EXPECT_EQ(of_merges("#version: 0.2\nh e\nhe\n"),
            "v.bpe, line 3: expected two tokens with a blank between them, got \"he\"");
  EXPECT_EQ(of_merges("q x\n"),
            "v.bpe, line 1: expected tokens that have an id, and have one together, got \"q x\"");
  EXPECT_EQ(of_merges("h e\n\nh e\n"), "v.bpe, line 3: expected each pair once, got \"h e\"");
  EXPECT_EQ(of_merges("h e\r\ni n\r\n"), "");
}

TEST_F(BytePairTest, ItsDigestIsThatOfTokensAndPairs) {
  const auto digest = [](const std::string& encoder, absl::string_view merges) {
    return BytePair::Parse("e", encoder, "v", merges)->digest();
  };
  const std::string encoder = Text("encoder.json");
  const uint64_t expected = digest(encoder, "h e\ni n\n");
  // Blanks, ends of line and the version say nothing.
  EXPECT_EQ(digest(nlohmann::json::parse(encoder).dump(1), "#version: 0.2\nh e\r\ni n"), expected);
  EXPECT_NE(digest(encoder, "i n\nh e\n"), expected);
  EXPECT_NE(digest(encoder, "h e\n"), expected);
  const int last = 2256;
  const std::string swapped = absl::StrReplaceAll(
      encoder,
      {{absl::StrCat(": ", last, "}"), ": 0}"}, {"\"!\": 0,", absl::StrCat("\"!\": ", last, ",")}});
  ASSERT_NE(swapped, encoder);
  EXPECT_NE(digest(swapped, "h e\ni n\n"), expected);
}

}  // namespace
}  // namespace sluice
