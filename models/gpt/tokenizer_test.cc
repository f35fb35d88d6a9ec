#include "models/gpt/tokenizer.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/data/file.h"
#include "framework/train/run_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr char kPairs[] = "framework/data/testdata/byte_pair";

class TokenizerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    root_ = (fs::path(::testing::TempDir()) / ("tokenizer_" + test)).lexically_normal().string();
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  // A folder with byte pairs under the given names.
  std::string FolderOf(const std::string& name, const char* encoder, const char* merges) {
    const std::string folder = absl::StrCat(root_, "/", name);
    fs::create_directories(folder);
    fs::copy(absl::StrCat(kPairs, "/encoder.json"), absl::StrCat(folder, "/", encoder));
    fs::copy(absl::StrCat(kPairs, "/vocab.bpe"), absl::StrCat(folder, "/", merges));
    return folder;
  }
  static std::string WhereOf(const AppOptions& options, const std::string& folder,
                             int64_t vocabulary = 50257) {
    const auto found = FindTokenizer(options, folder, vocabulary);
    return found.ok() ? found->where : std::string(found.status().message());
  }
  std::string root_;
};

TEST_F(TokenizerTest, BytesAndNumbersAndPairs) {
  const Tokenizer bytes;
  EXPECT_EQ(bytes.size(), 256);
  EXPECT_THAT(*bytes.Encode("a\xff"), ElementsAre(97, 255));
  EXPECT_EQ(*bytes.Decode({97, 255}), "a\xff");
  EXPECT_EQ(bytes.CountBytes({97, 255}), 2);

  const Tokenizer numbers = Tokenizer::OfNumbers(50257);
  EXPECT_FALSE(numbers.has_text());
  EXPECT_THAT(*numbers.Encode(" 15 50256\n"), ElementsAre(15, 50256));
  EXPECT_EQ(*numbers.Decode({15, 50256}), "15 50256");
  for (const char* bad : {"15 50257", "-1", "the"}) {
    EXPECT_THAT(std::string(numbers.Encode(bad).status().message()),
                HasSubstr("expected numbers of tokens, 0 to 50256, got \""));
  }

  const auto found = FindTokenizer(AppOptions(), kPairs, 50257);
  ASSERT_TRUE(found.ok()) << found.status();
  const Tokenizer& pairs = found->tokenizer;
  const std::string text = "the theory of the \xf0\x9f\x98\x80";
  const std::vector<int32_t> tokens = *pairs.Encode(text);
  EXPECT_LT(tokens.size(), text.size());
  EXPECT_EQ(*pairs.Decode(tokens), text);
  EXPECT_EQ(pairs.CountBytes(tokens), static_cast<int64_t>(text.size()));
}

TEST_F(TokenizerTest, BytesUnlessTheModelHasMoreTokens) {
  EXPECT_TRUE(FindTokenizer(AppOptions(), "", 256)->tokenizer.is_bytes());
  const auto numbers = FindTokenizer(AppOptions(), "", 300);
  EXPECT_EQ(numbers->tokenizer.name(), "300 tokens without a text");
  EXPECT_TRUE(numbers->files.empty());
  EXPECT_THAT(WhereOf({}, kPairs, 256), HasSubstr("--vocabulary: expected at least the "));
  EXPECT_THAT(WhereOf({}, root_ + "/none"), HasSubstr("none: expected a folder of byte pairs"));
}

// What the run has, whatever is named; what is named before that of the run that it begins with.
TEST_F(TokenizerTest, ARunKeepsItsOwn) {
  const std::string own = FolderOf("own", "encoder.json", "vocab.bpe");
  const std::string theirs = FolderOf("theirs", "vocab.json", "merges.txt");
  AppOptions resumed, begun;
  resumed.resume.checkpoint = own + "/checkpoints/step-000004";
  begun.init = own + "/checkpoints/step-000004";
  EXPECT_EQ(WhereOf(resumed, theirs), own);
  EXPECT_EQ(WhereOf(begun, theirs), theirs);
  EXPECT_EQ(WhereOf(begun, ""), own);
  resumed.resume.checkpoint = root_ + "/another/checkpoints/step-000004";
  EXPECT_EQ(WhereOf(resumed, theirs), theirs);
  EXPECT_EQ(WhereOf(resumed, ""), "");
  // They are kept under one name, to the byte.
  const auto found = FindTokenizer(resumed, theirs, 50257);
  EXPECT_EQ(found->files.at("encoder.json"), *ReadFile(own + "/encoder.json"));
  EXPECT_EQ(found->files.at("vocab.bpe"), *ReadFile(own + "/vocab.bpe"));
}

// Rows of a table that --init brings stand for the tokens of its own run.
TEST_F(TokenizerTest, RowsAreNotTakenForOtherTokens) {
  const std::string own = FolderOf("own", "encoder.json", "vocab.bpe");
  const std::string theirs = FolderOf("theirs", "vocab.json", "merges.txt");
  const auto saved =
      SaveCheckpoint(own + "/checkpoints", {},
                     std::vector<TensorEntry>{{"embedding/table", DType::kF32, {2300, 2}}},
                     [](const TensorEntry& entry) { return HostTensor(entry.dtype, entry.shape); });
  ASSERT_TRUE(saved.ok()) << saved.status();
  AppOptions begun;
  begun.init = *saved;
  EXPECT_EQ(WhereOf(begun, theirs, 2300), theirs);  // the same ones
  const std::string merges = *ReadFile(theirs + "/merges.txt");
  ASSERT_EQ(
      WriteRunFile(theirs + "/merges.txt", merges.substr(0, merges.rfind('\n', merges.size() / 2))),
      absl::OkStatus());
  EXPECT_THAT(WhereOf(begun, theirs, 2300),
              HasSubstr("--tokenizer: expected the byte pairs of --init, which are in "));
  EXPECT_EQ(WhereOf(begun, theirs, 2301), theirs);  // the table is learned anew
  EXPECT_EQ(WhereOf(begun, "", 2300), own);
}

TEST_F(TokenizerTest, ImportBringsThoseOfHuggingFace) {
  const std::string theirs = FolderOf("theirs", "vocab.json", "merges.txt");
  EXPECT_THAT(*TokenizerFiles(root_, 50257),
              ElementsAre(Pair("encoder.json", std::nullopt), Pair("vocab.bpe", std::nullopt)));
  EXPECT_THAT(std::string(TokenizerFiles(theirs, 256).status().message()),
              HasSubstr("--vocabulary: expected at least the "));
  EXPECT_THAT(*TokenizerFiles(theirs, 50257),
              ElementsAre(Pair("encoder.json", *ReadFile(theirs + "/vocab.json")),
                          Pair("vocab.bpe", *ReadFile(theirs + "/merges.txt"))));
}

}  // namespace
}  // namespace sluice
