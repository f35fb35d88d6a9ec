#include "framework/data/text_corpus.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "framework/base/hash.h"
#include "framework/data/pack_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

class TextCorpusTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "/corpus_" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  std::string Write(const std::string& name, const std::string& bytes) {
    const std::string path = root_ + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    FILE* file = fopen(path.c_str(), "wb");
    fwrite(bytes.data(), 1, bytes.size(), file);
    fclose(file);
    return path;
  }
  std::string root_;
};

TEST_F(TextCorpusTest, FileHoldsOutItsLastTenth) {
  const std::string text = std::string(90, 'a') + std::string(10, 'b');
  absl::StatusOr<TextCorpus> corpus = ReadTextCorpus(Write("one.txt", text));
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_EQ(corpus->training, std::string(90, 'a'));
  EXPECT_EQ(corpus->held_out, std::string(10, 'b'));
}

TEST_F(TextCorpusTest, FolderHoldsOutFilesByHashOfPath) {
  std::string training, held_out;
  for (int i = 100; i < 200; ++i) {
    const std::string name = absl::StrCat(i % 2 ? "odd/" : "even/", i, ".txt");
    Write(name, absl::StrCat("text ", i, "\n"));
  }
  for (const char* folder : {"even/", "odd/"}) {
    for (int i = folder[0] == 'e' ? 100 : 101; i < 200; i += 2) {
      const std::string name = absl::StrCat(folder, i, ".txt");
      (StableHash(name) % 10 == 0 ? held_out : training) += absl::StrCat("text ", i, "\n");
    }
  }
  Write(".git/hidden", "not text");
  Write(".hidden", "not text");
  absl::StatusOr<TextCorpus> corpus = ReadTextCorpus(root_);
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_EQ(corpus->training, training);
  EXPECT_EQ(corpus->held_out, held_out);
  EXPECT_EQ(corpus->training_files + corpus->held_out_files, 100);
  EXPECT_GT(corpus->held_out_files, 2);
  EXPECT_LT(corpus->held_out_files, 25);

  // A moved folder is the same corpus, a changed byte is not.
  std::filesystem::rename(root_, root_ + "_moved");
  EXPECT_EQ(ReadTextCorpus(root_ + "_moved/")->digest, corpus->digest);
  std::filesystem::rename(root_ + "_moved", root_);
  Write("odd/101.txt", "text 1o1\n");
  EXPECT_NE(ReadTextCorpus(root_)->digest, corpus->digest);
}

TEST_F(TextCorpusTest, SkippedFoldersAreNotRead) {
  Write("kept/a.txt", "text\n");
  Write("runs/1/log.jsonl", "{}\n");
  Write("runs/1/checkpoints/manifest.json", "{}\n");
  std::vector<std::string> asked;
  const auto skip = [&asked](const std::string& path) {
    asked.push_back(std::filesystem::path(path).filename());
    return asked.back() == "1";
  };
  const absl::StatusOr<TextCorpus> corpus = ReadTextCorpus(root_, {.skip = skip});
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_EQ(corpus->training + corpus->held_out, "text\n");
  EXPECT_THAT(asked, ::testing::UnorderedElementsAre("kept", "runs", "1"));
}

TEST_F(TextCorpusTest, ALinkThatLeadsNowhereIsLeftOutAndNamed) {
  Write("a.txt", "text\n");
  Write("b/linked.txt", "more\n");
  std::filesystem::create_symlink("b/linked.txt", root_ + "/good");
  std::filesystem::create_symlink("nowhere", root_ + "/dangling");
  std::filesystem::create_symlink("circle", root_ + "/circle");
  ::testing::internal::CaptureStderr();
  const absl::StatusOr<TextCorpus> corpus = ReadTextCorpus(root_);
  const std::string warnings = ::testing::internal::GetCapturedStderr();
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_EQ(corpus->training.size() + corpus->held_out.size(), 15u);
  EXPECT_THAT(warnings, HasSubstr("the link " + root_ + "/dangling is left out: No such file"));
  EXPECT_THAT(warnings, HasSubstr("the link " + root_ + "/circle is left out: Too many"));
}

// Nobody writes to the pipe, and no machine has memory for the file.
TEST_F(TextCorpusTest, PipesAndFilesLargerThanMemoryAreRefusedAtOnce) {
  const std::string pipe = root_ + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0644), 0);
  EXPECT_EQ(ReadPackedCorpus(pipe).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(ReadTextCorpus(pipe).status().message()), HasSubstr("pipe is neither"));
  const std::string large = Write("large", "");
  std::ofstream(large) << std::string(1 << 16, 'x');
  std::filesystem::resize_file(large, uintmax_t{1} << 43);  // a hole
  for (const std::string& path : {large, root_}) {
    const absl::Status status = ReadTextCorpus(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("data: " + path +
                          " is 8388608 MiB, and reading it takes twice that; "
                          "expected at most the "));
  }
  std::filesystem::remove(large);
}

TEST_F(TextCorpusTest, WhatIsPackedIsItsText) {
  std::string text;
  for (int i = 0; i < 5000; ++i) absl::StrAppend(&text, "line ", i * 7919 % 1000, "\n");
  const std::string packed = Write("text.gz", Gzipped(text));
  const absl::StatusOr<TextCorpus> corpus = ReadTextCorpus(packed);
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_EQ(corpus->training + corpus->held_out, text);
  const auto zstandard = ReadTextCorpus(Write("text.zst", Zstandard(text)));
  ASSERT_TRUE(zstandard.ok()) << zstandard.status();
  EXPECT_EQ(zstandard->training + zstandard->held_out, text);
  Write("text.gz", Gzipped(text).substr(0, 500));
  EXPECT_EQ(ReadTextCorpus(packed).status().message(),
            "data: " + packed + ": the gzipped file is cut short");
}

// What holds of a file holds of each file in a folder, also where all is more than memory.
TEST_F(TextCorpusTest, AFileThatIsNoTextIsRefused) {
  Write("a.txt", "some text\n");
  const std::string parquet = Write("b.dat", std::string("PAR1 \0\0 PAR1", 12));
  for (const std::string& path : {parquet, root_}) {
    EXPECT_EQ(ReadTextCorpus(path).status().message(),
              "data: " + parquet +
                  ": expected text, got Apache Parquet; write it as text with bazel run "
                  "//tools:dataset -- convert " +
                  parquet + " NAME.csv");
  }
  Write("c.png", "\x89PNG\r\n\x1a\n");
  Write("d/e.npy", "\x93NUMPY");
  Write("f.txt.gz", "text");
  const TextCorpusOptions advised = {.advice = "take care"};
  EXPECT_THAT(
      std::string(ReadTextCorpus(root_, advised).status().message()),
      ::testing::EndsWith(" NAME.csv; 2 other files of the folder are no text either; take care"));
  const auto raw = ReadTextCorpus(root_, {.any_bytes = true});
  ASSERT_TRUE(raw.ok()) << raw.status();
  EXPECT_EQ(raw->training.size() + raw->held_out.size(), 10u + 12 + 8 + 6 + 4);
  std::filesystem::remove(root_ + "/f.txt.gz");
  std::filesystem::resize_file(Write("large", ""), uintmax_t{1} << 43);
  EXPECT_THAT(std::string(ReadTextCorpus(root_).status().message()), HasSubstr("Apache Parquet"));
  std::filesystem::remove(root_ + "/large");
}

// A folder may have millions of files, and each takes a read to look at.
TEST_F(TextCorpusTest, AnErrorLooksAtAThousandFilesOfAFolder) {
  for (int i = 0; i < 1001; ++i) Write(absl::StrCat(i, ".npy"), "\x93NUMPY");
  EXPECT_THAT(std::string(ReadTextCorpus(root_).status().message()),
              ::testing::EndsWith("; 1000 other files of the folder are no text either"));
  for (int i = 1001; i < 1200; ++i) Write(absl::StrCat(i, ".npy"), "\x93NUMPY");
  EXPECT_THAT(
      std::string(ReadTextCorpus(root_).status().message()),
      ::testing::EndsWith("; of the next 1000 files of the folder, 1000 are no text either"));
}

TEST_F(TextCorpusTest, PackedFilesEqualTheFolder) {
  Write("a.txt", "some text\n");
  Write("b/c d.txt", "more text");
  Write("e.txt", "");
  const uint64_t digest = ReadTextCorpus(root_)->digest;
  const std::string pack = "b/c d.txt 9\nmore texta.txt 10\nsome text\ne.txt 0\n";
  absl::StatusOr<TextCorpus> packed = ReadPackedCorpus(Write("pack", pack));
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_EQ(packed->digest, digest);
  EXPECT_EQ(packed->training + packed->held_out, "some text\nmore text");
  for (const char* bad :
       {"a.txt\n", "a.txt 5\nfour", "a.txt -1\n", "a.txt 1", "a.txt 4\nfour\nb"}) {
    EXPECT_THAT(std::string(ReadPackedCorpus(Write("pack", bad)).status().message()),
                HasSubstr("expected a line \"path bytes\""))
        << bad;
  }
}

TEST_F(TextCorpusTest, ErrorsSayWhatAndWhere) {
  auto message = [](const std::string& path) {
    return std::string(ReadTextCorpus(path).status().message());
  };
  EXPECT_THAT(message(root_ + "/none"), HasSubstr("expected a file or a folder of text, got"));
  EXPECT_THAT(message(root_), HasSubstr("holds no file with text"));
  EXPECT_THAT(message(Write("empty.txt", "")), HasSubstr("empty.txt is empty"));
  EXPECT_THAT(message("/dev/null"), HasSubstr("is neither"));
  if (geteuid() != 0) {  // root reads everything
    const std::string secret = Write("secret.txt", "x");
    chmod(secret.c_str(), 0);
    EXPECT_THAT(message(secret), HasSubstr("Permission denied"));
  }
}

TEST(BigramLossTest, CountsPairsWithOneAdded) {
  // After 'a' comes 'b' twice of two: (2 + 1) / (2 + 256); after 'b' comes 'a' once of one.
  EXPECT_NEAR(BigramLoss("abab", "ab"), -std::log(3.0 / 258), 1e-12);
  EXPECT_NEAR(BigramLoss("abab", "aba"), -(std::log(3.0 / 258) + std::log(2.0 / 257)) / 2, 1e-12);
  EXPECT_NEAR(BigramLoss("", "xyz"), std::log(256), 1e-12);
}

}  // namespace
}  // namespace sluice
