#include "models/gpt/text.h"

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/data/file.h"
#include "framework/data/pack_testing.h"
#include "framework/data/text_corpus.h"
#include "framework/data/token_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/gpt/tokenize.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr char kPairs[] = "framework/data/testdata/byte_pair";
constexpr int64_t kLength = 16;

class TextTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "/text_" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
    fs::create_directories(root_);
    text_ = *ReadFile("models/gpt/testdata/fixed.txt");
  }
  std::string Write(const std::string& name, const std::string& bytes) const {
    const std::string path = absl::StrCat(root_, "/", name);
    FILE* const file = fopen(path.c_str(), "wb");
    EXPECT_EQ(fwrite(bytes.data(), 1, bytes.size(), file), bytes.size());
    fclose(file);
    return path;
  }
  // Tokens 0, 1, .. below `below`, again and again.
  std::string WriteTokens(const std::string& name, TokenFormat format, int64_t count,
                          int32_t below = 300) const {
    TokenFile file;
    file.format = format;
    for (int64_t i = 0; i < count; ++i) file.tokens.push_back(static_cast<int32_t>(i % below));
    if (format == TokenFormat::kMegatron) {
      file.sequences = {0, count / 2, count};
      file.documents = {0, 1, 2};
    }
    const std::string path = absl::StrCat(root_, "/", name);
    const absl::Status written = WriteTokenFile(path, file, below);
    EXPECT_TRUE(written.ok()) << written;
    return path;
  }
  absl::StatusOr<GptData> Open(const std::string& data, int64_t vocabulary,
                               const std::string& pairs = "", bool raw_bytes = false) const {
    AppOptions options;
    options.data = data;
    options.out = root_ + "/run";
    const auto tokenizer = FindTokenizer(options, pairs, vocabulary);
    if (!tokenizer.ok()) return tokenizer.status();
    GptConfig config;
    config.vocabulary = vocabulary;
    config.sequence_length = kLength;
    return OpenGptText(options, config, *tokenizer, raw_bytes);
  }
  std::string Error(const std::string& data, int64_t vocabulary) const {
    return std::string(Open(data, vocabulary).status().message());
  }
  // The first `count` tokens.
  static std::vector<int32_t> Begin(const Dataset& data, int64_t count) {
    std::vector<int32_t> tokens(count);
    EXPECT_TRUE(
        data.Fill(0, {0}, 0, Box{{0, count}}, reinterpret_cast<std::byte*>(tokens.data())).ok());
    return tokens;
  }
  std::string root_, text_;
};

TEST_F(TextTest, TextIsBytesGzippedOrNot) {
  const auto plain = Open(Write("a.txt", text_), 256);
  const auto packed = Open(Write("a.txt.gz", Gzipped(text_)), 256);
  ASSERT_TRUE(plain.ok() && packed.ok()) << plain.status() << packed.status();
  EXPECT_EQ(plain->bytes_per_token, 1);
  EXPECT_EQ(plain->data.training->num_samples(), 180000 - kLength);
  EXPECT_EQ(packed->data.training->identity(), plain->data.training->identity());
  EXPECT_EQ(packed->data.held_out->identity(), plain->data.held_out->identity());
  EXPECT_EQ(Begin(*packed->data.training, 3), (std::vector<int32_t>{text_[0], text_[1], text_[2]}));
}

TEST_F(TextTest, BytesThatAreNoTextAreLearnedWhenThatIsMeant) {
  std::string bytes;
  for (int i = 0; i < 1000; ++i) bytes += static_cast<char>(i * i);
  // Also where the name says tokens.
  for (const char* name : {"a.dat", "a.bin"}) {
    const std::string path = Write(name, bytes);
    const auto opened = Open(path, 256, "", /*raw_bytes=*/true);
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_EQ(opened->data.training->num_samples(), 900 - kLength);
    EXPECT_EQ(Begin(*opened->data.training, 5), (std::vector<int32_t>{0, 1, 4, 9, 16}));
  }
  EXPECT_EQ(Error(root_ + "/a.dat", 256),
            "data: " + root_ +
                "/a.dat: expected text, got bytes of no format that is known, with 00 at byte 0; "
                "--raw_bytes learns its bytes as they are");
}

// The same text in fewer tokens, and what it is held against in nats of these.
TEST_F(TextTest, TextIsBytePairs) {
  const std::string path = Write("a.txt", text_);
  const auto opened = Open(path, 50257, kPairs);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const Tokenizer pairs = FindTokenizer({}, kPairs, 50257)->tokenizer;
  const TextCorpus corpus = *ReadTextCorpus(path);
  const std::vector<int32_t> held_out = *pairs.Encode(corpus.held_out);
  EXPECT_EQ(Begin(*opened->data.held_out, kLength),
            (std::vector<int32_t>{held_out.begin(), held_out.begin() + kLength}));
  EXPECT_GT(opened->bytes_per_token, 2);
  EXPECT_DOUBLE_EQ(opened->bytes_per_token, 20000.0 / static_cast<double>(held_out.size()));
  EXPECT_DOUBLE_EQ(opened->data.baseline->value,
                   BigramLoss(corpus.training, corpus.held_out) * opened->bytes_per_token);
  EXPECT_EQ(opened->data.files.count("encoder.json") + opened->data.files.count("vocab.bpe"), 2u);
}

TEST_F(TextTest, TokensOfEveryFormat) {
  for (const TokenFormat format :
       {TokenFormat::kNanoGpt, TokenFormat::kLlmC, TokenFormat::kMegatron, TokenFormat::kNpy}) {
    const bool npy = format == TokenFormat::kNpy;
    const auto opened = Open(WriteTokens(npy ? "some.npy" : "some.bin", format, 1000), 300);
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_EQ(opened->data.training->num_samples(), 900 - kLength);
    EXPECT_EQ(opened->data.held_out->num_samples(), 7);  // 99 tokens to predict, 16 a window
    EXPECT_EQ(Begin(*opened->data.held_out, 2), (std::vector<int32_t>{0, 1}));
    EXPECT_EQ(opened->bytes_per_token, 0);  // of numbers nobody knows the text
    EXPECT_FALSE(opened->data.baseline.has_value());
    fs::remove(root_ + "/some.idx");
  }
}

TEST_F(TextTest, AFolderOfTwoFilesIsWhatItsNamesSay) {
  WriteTokens("shakespeare_train.bin", TokenFormat::kLlmC, 500);
  WriteTokens("shakespeare_val.bin", TokenFormat::kNanoGpt, 70);
  const auto opened = Open(root_, 300);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->data.training->num_samples(), 500 - kLength);
  EXPECT_EQ(opened->data.held_out->num_samples(), 5);
}

// As llm.c and build-nanogpt cut what is too large for a file.
TEST_F(TextTest, ShardsAreOneDataSetInTheOrderOfTheirNames) {
  WriteTokens("a_train_000002.bin", TokenFormat::kLlmC, 1100, 200);
  WriteTokens("a_train_000001.bin", TokenFormat::kLlmC, 1300);
  WriteTokens("a_train_000010.bin", TokenFormat::kLlmC, 700);
  WriteTokens("a_val_000000.bin", TokenFormat::kLlmC, 400);
  const auto opened = Open(root_, 300);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->data.training->num_samples(), 3100 - kLength);
  // Windows that lie side by side, the last one short.
  EXPECT_EQ(opened->data.held_out->num_samples(), (400 - 1 + kLength - 1) / kLength);
  EXPECT_EQ(opened->data.lines[0], "tokens     3100 to learn from, 400 held out, of 16 bits, of " +
                                       root_ + ": 3 files to learn from, 1 held out");
  std::vector<int32_t> tokens(3);
  ASSERT_TRUE(opened->data.training
                  ->Fill(0, {1299}, 0, Box{{0, 3}}, reinterpret_cast<std::byte*>(tokens.data()))
                  .ok());
  EXPECT_EQ(tokens, (std::vector<int32_t>{1299 % 300, 0, 1}));
  fs::remove(root_ + "/a_val_000000.bin");
  EXPECT_EQ(Open(root_, 300)->data.held_out->num_samples(), (310 - 1 + kLength - 1) / kLength);
}

TEST_F(TextTest, TokensOf32Bits) {
  for (const TokenFormat format :
       {TokenFormat::kNanoGpt, TokenFormat::kLlmC, TokenFormat::kMegatron, TokenFormat::kNpy}) {
    const bool npy = format == TokenFormat::kNpy;
    const std::string path =
        WriteTokens(npy ? "some.npy" : "some.bin", format, 100277, /*below=*/100277);
    const auto opened = Open(path, 100277);
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_THAT(opened->data.lines[0],
                HasSubstr("90250 to learn from, 10027 held out, of 32 bits"));
    EXPECT_EQ(Begin(*opened->data.held_out, 2), (std::vector<int32_t>{90250, 90251}));
    EXPECT_NE(Error(path, 50257), "");
    fs::remove(root_ + "/some.idx");
  }
}

// Where the byte pairs of tokens are known, so are their bytes.
TEST_F(TextTest, TokensWithATokenizerAreToldInBits) {
  const Tokenizer pairs = FindTokenizer({}, kPairs, 50257)->tokenizer;
  const auto opened =
      Open(WriteTokens("some.bin", TokenFormat::kNanoGpt, 1000, static_cast<int32_t>(pairs.size())),
           50257, kPairs);
  ASSERT_TRUE(opened.ok()) << opened.status();
  std::vector<int32_t> held_out;
  for (int32_t i = 900; i < 1000; ++i) held_out.push_back(i);
  EXPECT_DOUBLE_EQ(opened->bytes_per_token,
                   static_cast<double>(pairs.Decode(held_out)->size()) / 100);
}

// A run of the files sees what a run of the text sees.
TEST_F(TextTest, TokenizedTextIsTheText) {
  const std::string path = Write("a.txt", text_);
  const auto of_text = Open(path, 50257, kPairs);
  ASSERT_TRUE(of_text.ok()) << of_text.status();
  const Tokenizer pairs = FindTokenizer({}, kPairs, 50257)->tokenizer;
  for (const char* name : {"nanogpt", "llm.c", "megatron"}) {
    const std::string out = absl::StrCat(root_, "/tokens-", name);
    const auto made = WriteTokensOf(path, pairs, *ParseTokenFormat(name), out);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(made->bytes, 200000);
    EXPECT_EQ(fs::exists(out + "/val.idx"), std::string(name) == "megatron");
    EXPECT_EQ(ReadTokenFile(out + "/val.bin")->format, *ParseTokenFormat(name));
    const auto of_tokens = Open(out, 50257, kPairs);
    ASSERT_TRUE(of_tokens.ok()) << of_tokens.status();
    EXPECT_EQ(of_tokens->data.training->identity(), of_text->data.training->identity());
    EXPECT_EQ(of_tokens->data.held_out->identity(), of_text->data.held_out->identity());
    EXPECT_DOUBLE_EQ(of_tokens->bytes_per_token, of_text->bytes_per_token);
  }
  EXPECT_THAT(std::string(ParseTokenFormat("numpy").status().message()),
              HasSubstr("--format: expected nanogpt, llm.c or megatron, got \"numpy\""));
}

TEST_F(TextTest, BadInputIsNamed) {
  const std::string tokens = WriteTokens("some.bin", TokenFormat::kNanoGpt, 1000, 290);
  EXPECT_EQ(Error(tokens, 289), "data: " + tokens +
                                    ", token 289: expected 0 to 288, as of 289 tokens without a "
                                    "text, got 289; --vocabulary says how many tokens there are");
  EXPECT_EQ(Error(tokens, 256), "data: " + tokens +
                                    ", token 256: expected 0 to 255, as of bytes, got 256; "
                                    "--vocabulary says how many tokens there are");
  EXPECT_EQ(
      Error(Write("a.txt", text_), 300),
      "data: " + root_ +
          "/a.txt: expected tokens for a model of 300, a file NAME.bin or NAME.npy or a folder "
          "of files NAME_train.bin and NAME_val.bin, or --tokenizer, the folder of the byte "
          "pairs that text is made of; got text");
  EXPECT_THAT(Error(Write("a.parquet", std::string("PAR1\0", 5)), 300),
              HasSubstr("; got Apache Parquet; write it as text with bazel run"));
  EXPECT_THAT(Error(Write("tokens.bin.gz", Gzipped({1, 2, 0, 4})), 300),
              HasSubstr("; got bytes of no format that is known, with 01 at byte 0"));
  EXPECT_THAT(Error(Write("odd.bin", "abc"), 300), HasSubstr("odd.bin"));
  EXPECT_THAT(
      Error(WriteTokens("few.bin", TokenFormat::kNanoGpt, 100), 300),
      HasSubstr(
          "few.bin: held-out tokens: a sequence of 16 tokens needs at least 17 tokens, got 10"));
  EXPECT_EQ(Error(root_ + "/none.bin", 300),
            "data: cannot read " + root_ + "/none.bin: No such file or directory");
  fs::create_directories(root_ + "/folder");
  EXPECT_THAT(Error(root_ + "/folder", 300), HasSubstr("; got a folder without such files"));
}

}  // namespace
}  // namespace sluice
