#include "framework/data/token_sequence.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/data/text_dataset.h"
#include "framework/data/token_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TokenSequenceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "/sequence_" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name() + "/";
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  // Tokens first, first + 7, .., all below 50,000.
  std::string Write(const std::string& name, TokenFormat format, int64_t count, int32_t first,
                    int64_t vocabulary = 50257) {
    TokenFile file;
    file.format = format;
    for (int64_t i = 0; i < count; ++i) {
      file.tokens.push_back(static_cast<int32_t>((first + 7 * i) % 50000));
    }
    file.sequences = {0, count};
    file.documents = {0, 1};
    all_.insert(all_.end(), file.tokens.begin(), file.tokens.end());
    EXPECT_TRUE(WriteTokenFile(root_ + name, file, vocabulary).ok());
    return root_ + name;
  }
  static std::vector<int32_t> Read(const TokenSequence& tokens, int64_t begin, int64_t count) {
    std::vector<int32_t> values(count);
    const absl::Status status = tokens.Read(begin, count, values.data());
    EXPECT_TRUE(status.ok()) << status;
    return values;
  }
  std::vector<int32_t> AllFrom(int64_t begin, int64_t count) const {
    return {all_.begin() + begin, all_.begin() + begin + count};
  }
  std::string root_;
  std::vector<int32_t> all_;  // that were written, in order
};

constexpr int64_t kVocabulary = 50257;

// Files of every type and format as one sequence, and any part of it.
TEST_F(TokenSequenceTest, FilesFollowEachOther) {
  const std::vector<std::string> paths = {
      Write("a.bin", TokenFormat::kNanoGpt, 5, 0),
      Write("b.bin", TokenFormat::kLlmC, 3000, 11),
      Write("c.bin", TokenFormat::kNanoGpt, 0, 0),
      Write("d.bin", TokenFormat::kMegatron, 70000, 3),
      Write("e.bin", TokenFormat::kMegatron, 40, 9, /*vocabulary=*/70000),
      Write("f.npy", TokenFormat::kNpy, 3, 1),
      Write("g.npy", TokenFormat::kNpy, 3, 2, /*vocabulary=*/70000),
      Write("h.bin", TokenFormat::kLlmC, 7, 5, /*vocabulary=*/70000)};
  const auto opened = TokenSequence::Open(paths, {kVocabulary, "some"});
  ASSERT_TRUE(opened.ok()) << opened.status();
  const auto size = static_cast<int64_t>(all_.size());
  ASSERT_EQ(opened->size(), size);
  EXPECT_EQ(Read(*opened, 0, size), all_);
  for (const auto& [begin, count] : std::vector<std::pair<int64_t, int64_t>>{
           {0, 1}, {3, 5}, {4, 3010}, {3004, 2}, {size - 20, 20}, {size, 0}}) {
    EXPECT_EQ(Read(*opened, begin, count), AllFrom(begin, count)) << begin;
  }
  const TokenSequence part = opened->Part(4, size - 2).Part(1, 3100);
  EXPECT_EQ(part.size(), 3099);
  EXPECT_EQ(Read(part, 0, 3099), AllFrom(5, 3099));
  std::vector<int32_t> pieces;
  ASSERT_TRUE(opened
                  ->ForEachPiece([&](absl::Span<const int32_t> piece) {
                    pieces.insert(pieces.end(), piece.begin(), piece.end());
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_EQ(pieces, all_);
}

// The samples and the identity are those of the same tokens in memory, which checkpoints name.
TEST_F(TokenSequenceTest, IsTheDataSetOfItsTokens) {
  const std::vector<std::string> paths = {Write("a.bin", TokenFormat::kNanoGpt, 100, 0),
                                          Write("b.npy", TokenFormat::kNpy, 70000, 1)};
  auto opened = TokenSequence::Open(paths, {kVocabulary, "some"});
  ASSERT_TRUE(opened.ok()) << opened.status();
  ASSERT_TRUE(opened->Identify().ok());
  const auto of_files = TokenFileDataset::Create("tokens", *opened, 16);
  const auto in_memory = TokenDataset::Create("tokens", all_, 16);
  ASSERT_TRUE(of_files.ok() && in_memory.ok());
  EXPECT_EQ(of_files->identity(), in_memory->identity());
  EXPECT_EQ(of_files->num_samples(), in_memory->num_samples());
  // A window that begins in one file and ends in the next.
  for (const int field : {0, 1}) {
    std::vector<int32_t> a(20), b(20);
    const Box box = {{3, 13}};
    ASSERT_TRUE(
        of_files->Fill(field, {91, 5}, 0, box, reinterpret_cast<std::byte*>(a.data())).ok());
    ASSERT_TRUE(
        in_memory->Fill(field, {91, 5}, 0, box, reinterpret_cast<std::byte*>(b.data())).ok());
    EXPECT_EQ(a, b);
  }
  TokenSequence part = opened->Part(10, 70050);
  ASSERT_TRUE(part.Identify().ok());
  EXPECT_EQ(part.identity(), TokenDataset::Create("part", AllFrom(10, 70040), 16)->identity());
}

TEST_F(TokenSequenceTest, ATokenThatIsNoneIsNamed) {
  const std::vector<std::string> paths = {Write("a.bin", TokenFormat::kNanoGpt, 200, 0),
                                          Write("b.bin", TokenFormat::kNanoGpt, 200, 0)};
  auto opened = TokenSequence::Open(paths, {1393, "few", "; take more"});
  ASSERT_TRUE(opened.ok()) << opened.status();
  // The last one of a file is 1393.
  const std::string error =
      "data: " + paths[0] + ", token 199: expected 0 to 1392, as of few, got 1393; take more";
  EXPECT_EQ(opened->Identify().message(), error);
  std::vector<int32_t> values(400);
  EXPECT_EQ(opened->Read(150, 250, values.data()).message(), error);
  EXPECT_TRUE(opened->Read(200, 199, values.data()).ok());
  EXPECT_THAT(std::string(opened->Read(200, 200, values.data()).message()),
              HasSubstr("b.bin, token 199: expected 0 to 1392"));
  TokenFile wide;
  wide.format = TokenFormat::kNpy;
  wide.tokens = {1, 2, -3};
  std::ofstream(root_ + "c.npy", std::ios::binary)
      << BytesOfTokens({TokenFormat::kNpy, {1, 2, 70000}, {}, {}, {}}, 70001)->bin;
  const auto large = TokenSequence::Open({root_ + "c.npy"}, {kVocabulary, "some", ""});
  ASSERT_TRUE(large.ok()) << large.status();
  EXPECT_THAT(std::string(large->Read(0, 3, values.data()).message()),
              HasSubstr("c.npy, token 2: expected 0 to 50256, as of some, got 70000"));
}

TEST_F(TokenSequenceTest, AFileThatBecomesShorterIsAnError) {
  const std::string path = Write("a.bin", TokenFormat::kNanoGpt, 2000, 0);
  const auto opened = TokenSequence::Open({path}, {kVocabulary, "some"});
  ASSERT_TRUE(opened.ok()) << opened.status();
  fs::resize_file(path, 2000);
  std::vector<int32_t> values(2000);
  EXPECT_TRUE(opened->Read(0, 1000, values.data()).ok());
  EXPECT_TRUE(absl::IsDataLoss(opened->Read(500, 1000, values.data())));
}

TEST_F(TokenSequenceTest, APieceOfManyIsASampleFromAllPlaces) {
  const std::string path = Write("a.bin", TokenFormat::kNanoGpt, 400000, 0);
  const auto opened = TokenSequence::Open({path}, {kVocabulary, "some"});
  ASSERT_TRUE(opened.ok()) << opened.status();
  std::vector<int32_t> begins;
  int64_t tokens = 0;
  ASSERT_TRUE(opened
                  ->ForEachPieceOf(3 << 16,
                                   [&](absl::Span<const int32_t> piece) {
                                     begins.push_back(piece[0]);
                                     tokens += static_cast<int64_t>(piece.size());
                                     return absl::OkStatus();
                                   })
                  .ok());
  EXPECT_EQ(tokens, 3 << 16);
  EXPECT_THAT(begins, ElementsAre(all_[0], all_[2 << 16], all_[4 << 16]));
}

// What is more than a sample is known by its size, by what the sample has, and by nothing else.
TEST_F(TokenSequenceTest, VeryManyTokensAreIdentifiedByASample) {
  const std::string path = root_ + "large.bin";
  const int64_t count = TokenSequence::kMostIdentified + 1000;
  std::ofstream(path).close();
  fs::resize_file(path, 2 * count);  // a hole: all tokens are 0
  auto opened = TokenSequence::Open({path}, {kVocabulary, "some"});
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_TRUE(opened->is_sampled());
  EXPECT_FALSE(opened->Part(0, 1000).is_sampled());
  int asked = 0;
  // The sample takes a moment, and can be stopped.
  EXPECT_TRUE(absl::IsCancelled(opened->Identify([&] { return ++asked == 3; })));
  EXPECT_EQ(asked, 3);
}

class TokenPathsTest : public TokenSequenceTest {
 protected:
  // The names, those to learn from before those that are held out.
  std::string Found(const std::vector<std::string>& names) {
    fs::remove_all(root_);
    fs::create_directories(root_);
    for (const std::string& name : names) std::ofstream(root_ + name) << "x";
    const auto paths = FindTokenFiles(root_.substr(0, root_.size() - 1));
    if (!paths.ok()) return std::string(paths.status().message());
    std::string found;
    for (const std::string& path : paths->training) {
      absl::StrAppend(&found, fs::path(path).filename().string(), " ");
    }
    found += "|";
    for (const std::string& path : paths->held_out) {
      absl::StrAppend(&found, " ", fs::path(path).filename().string());
    }
    return found;
  }
};

TEST_F(TokenPathsTest, NamesSayWhatAFolderHas) {
  // nanoGPT, whose folder has other files, too.
  EXPECT_EQ(Found({"val.bin", "train.bin", "meta.pkl", "input.txt"}), "train.bin | val.bin");
  // llm.c and build-nanogpt.
  EXPECT_EQ(Found({"fineweb_train_000002.bin", "fineweb_train_000001.bin", "fineweb_val_000000.bin",
                   "fineweb_train_000010.bin"}),
            "fineweb_train_000001.bin fineweb_train_000002.bin fineweb_train_000010.bin | "
            "fineweb_val_000000.bin");
  EXPECT_EQ(Found({"edufineweb_train_000001.npy", "edufineweb_val_000000.npy"}),
            "edufineweb_train_000001.npy | edufineweb_val_000000.npy");
  EXPECT_EQ(Found({"train-00001-of-00002.npy", "train-00000-of-00002.npy", "validation.npy"}),
            "train-00000-of-00002.npy train-00001-of-00002.npy | validation.npy");
  EXPECT_EQ(Found({"tiny_shakespeare_train.bin", "tiny_shakespeare_val.bin", "notes.bin"}),
            "tiny_shakespeare_train.bin | tiny_shakespeare_val.bin");
  EXPECT_EQ(Found({"my_train_1.bin"}), "my_train_1.bin |");
  // Text.
  EXPECT_EQ(Found({"train.txt", "val.txt"}), "|");
  EXPECT_EQ(Found({"1.bin", "training_notes.bin"}), "|");
}

TEST_F(TokenPathsTest, AFolderThatIsUnclearIsRefused) {
  EXPECT_THAT(Found({"train.bin", "val.npy"}), HasSubstr("got both .bin and .npy in the folder"));
  EXPECT_THAT(Found({"a_val_0.bin"}), HasSubstr("expected tokens to learn from, NAME_train.bin"));
}

TEST_F(TokenPathsTest, AFileIsItself) {
  const std::string path = Write("some.bin", TokenFormat::kNanoGpt, 3, 0);
  EXPECT_THAT(FindTokenFiles(path)->training, ElementsAre(path));
  EXPECT_THAT(FindTokenFiles(root_ + "none.bin")->training, ElementsAre());
  std::ofstream(root_ + "a.txt") << "x";
  EXPECT_THAT(FindTokenFiles(root_ + "a.txt")->training, ElementsAre());
}

}  // namespace
}  // namespace sluice
