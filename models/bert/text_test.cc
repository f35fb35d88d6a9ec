// Tests which vocabulary a run reads its text by. The samples of a text are tested by
// //framework/data:masked_text_test and labelled_text_test.
#include "models/bert/text.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/train/run_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kPieces[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";

class TextTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = (fs::path(::testing::TempDir()) / ("text_" + test)).lexically_normal().string();
    fs::remove_all(folder_);
    options_.data = WriteTexts("cased", "The Boat sails past caf\u00e9 ");
    config_ = {.vocabulary = 60, .sequence_length = 16, .classes = 2};
  }
  void Write(const std::string& name, const std::string& text) {
    const std::string path = absl::StrCat(folder_, "/", name);
    fs::create_directories(fs::path(path).parent_path());
    ASSERT_EQ(WriteRunFile(path, text), absl::OkStatus());
  }
  // Writes texts of two classes, and the same ones to hold out; returns the file to learn from.
  std::string WriteTexts(const std::string& name, const std::string& text) {
    std::string lines;
    for (int i = 0; i < 20; ++i) {
      absl::StrAppend(&lines, i % 2 == 0 ? "sea" : "land", "\t", text, i, "\n");
    }
    Write(name + "-train.tab", lines);
    Write(name + "-test.tab", lines);
    return absl::StrCat(folder_, "/", name, "-train.tab");
  }
  // A checkpoint of a model that has an embedding of so many rows.
  std::string Checkpoint(const std::string& run, int64_t rows) {
    CheckpointMeta meta;
    meta.step = 4;
    const auto saved = SaveCheckpoint(
        absl::StrCat(folder_, "/", run, "/checkpoints"), meta,
        std::vector<TensorEntry>{{"embedding/table", DType::kF32, {rows, 2}}},
        [](const TensorEntry& entry) { return HostTensor(entry.dtype, entry.shape); });
    EXPECT_TRUE(saved.ok()) << saved.status();
    return saved.value_or("");
  }
  // The line about the vocabulary, or the error, without the folder.
  std::string Words(const std::string& vocabulary_file = "") {
    const auto data = OpenBertText(options_, config_, vocabulary_file);
    const std::string words = data.ok() ? data->lines[0] : std::string(data.status().message());
    return absl::StrReplaceAll(words, {{folder_ + "/", ""}});
  }
  // By what a run knows its data again: its tokens.
  DataIdentity Tokens(const std::string& vocabulary_file) {
    const auto data = OpenBertText(options_, config_, vocabulary_file);
    EXPECT_TRUE(data.ok()) << data.status();
    return data.ok() ? data->training->identity() : DataIdentity();
  }
  AppOptions options_;
  std::string expected_names_;
  BertConfig config_;
  std::string folder_;
};

TEST_F(TextTest, ANewRunLearnsItsVocabularyOrReadsOne) {
  EXPECT_THAT(Words(), HasSubstr("pieces, learned from the text"));
  Write("v/mine.txt", absl::StrCat(kPieces, "the\nboat\n"));
  EXPECT_EQ(Words(folder_ + "/v/mine.txt"), "words      7 pieces, v/mine.txt");
  EXPECT_EQ(Words(folder_ + "/v"),
            "v: expected word pieces, vocab.txt or tokenizer.json, got neither");
}

// The texts become the same tokens as texts that have small letters in place of capitals, read by a
// vocabulary that has, too.
TEST_F(TextTest, ACasedVocabularyKeepsCaseAndAccents) {
  Write("cased/vocab.txt", absl::StrCat(kPieces, "The\nBoat\nsails\npast\ncaf\u00e9\nthe\ncafe\n"));
  Write("cased/tokenizer_config.json", R"({"do_lower_case": false})");
  Write("lower/vocab.txt", absl::StrCat(kPieces, "xthe\nxboat\nsails\npast\nxcafe\nthe\ncafe\n"));
  EXPECT_EQ(Words(folder_ + "/cased"), "words      12 pieces, cased/vocab.txt; cased");
  const DataIdentity cased = Tokens(folder_ + "/cased");
  options_.data = WriteTexts("lower", "xthe xboat sails past xcafe ");
  EXPECT_EQ(cased.digest, Tokens(folder_ + "/lower").digest);
  // A run keeps it in its files, and --init finds it there.
  options_.data = folder_ + "/cased-train.tab";
  const auto data = OpenBertText(options_, config_, folder_ + "/cased");
  ASSERT_TRUE(data.ok()) << data.status();
  for (const auto& [name, text] : data->files) Write("run/" + name, text);
  options_.init = Checkpoint("run", config_.vocabulary);
  EXPECT_EQ(Words(), "words      12 pieces, run/vocab.txt; cased");
  EXPECT_EQ(Tokens("").digest, cased.digest);
}

TEST_F(TextTest, RowsAreNeverTakenForPiecesThatAreLearnedAnew) {
  const std::string checkpoint = Checkpoint("run", config_.vocabulary);
  const std::string refused =
      "vocabulary: expected vocab.txt in run, for whose pieces the rows of the embedding stand, "
      "got "
      "none; --vocabulary_file names it";
  options_.init = checkpoint;
  EXPECT_EQ(Words(), refused);
  config_.vocabulary = 61;  // the embedding is learned anew, too
  EXPECT_THAT(Words(), HasSubstr("learned from the text"));
  config_.vocabulary = 60;
  options_.init.clear();
  options_.resume.checkpoint = checkpoint;
  EXPECT_EQ(Words(), refused);
  // A checkpoint that was copied without its run's files.
  fs::create_directories(folder_ + "/copied");
  fs::copy(checkpoint, folder_ + "/copied/step-000004");
  options_.resume.checkpoint = folder_ + "/copied/step-000004/";
  EXPECT_THAT(Words(), HasSubstr("vocabulary: expected vocab.txt in copied, for whose"));
  Write("own.txt", absl::StrCat(kPieces, "boat\n"));
  EXPECT_EQ(Words(folder_ + "/own.txt"), "words      6 pieces, own.txt");
  Write("copied/vocab.txt", absl::StrCat(kPieces, "boat\nsails\n"));
  EXPECT_EQ(Words(), "words      7 pieces, copied/vocab.txt");
}

// Also of a checkpoint that is not the run's last, and however it is named.
TEST_F(TextTest, TheRunsOwnVocabularyIsTaken) {
  const std::string checkpoint = Checkpoint("run", config_.vocabulary);
  Write("run/vocab.txt", absl::StrCat(kPieces, "boat\nsails\n"));
  Write("other.txt", absl::StrCat(kPieces, "boat\n"));
  for (const std::string& name :
       {checkpoint, checkpoint + "/", folder_ + "/run/../run/checkpoints//step-000004"}) {
    options_.resume.checkpoint = name;
    EXPECT_EQ(Words(), "words      7 pieces, run/vocab.txt");
    EXPECT_EQ(Words(folder_ + "/other.txt"), "words      7 pieces, run/vocab.txt");
  }
  options_.resume.checkpoint.clear();
  options_.init = checkpoint;
  EXPECT_EQ(Words(), "words      7 pieces, run/vocab.txt");
  // Another one would give the rows that --init brings other pieces.
  EXPECT_THAT(
      Words(folder_ + "/other.txt"),
      AllOf(HasSubstr("--vocabulary_file: expected the word pieces of --init, which are in "),
            HasSubstr("other.txt: rows of its embedding would stand for other tokens")));
  EXPECT_EQ(Words(folder_ + "/run/vocab.txt"), "words      7 pieces, run/vocab.txt");
  config_.vocabulary = 61;
  EXPECT_EQ(Words(folder_ + "/other.txt"), "words      6 pieces, other.txt");
}

// A row of a classifier stands for a class, in whatever order a model has them.
TEST_F(TextTest, ClassesKeepTheOrderOfTheModel) {
  Write("run/vocab.txt", absl::StrCat(kPieces, "boat\n"));
  const auto labels = [this]() -> std::vector<int32_t> {
    const auto data = OpenBertText(options_, config_, "");
    EXPECT_TRUE(data.ok()) << data.status();
    if (!data.ok()) return {};
    EXPECT_EQ(data->files.at("classes.txt"), expected_names_);
    std::vector<int32_t> values(2);
    EXPECT_EQ(data->training->Fill(3, {0, 1}, 0, {}, reinterpret_cast<std::byte*>(values.data())),
              absl::OkStatus());
    return values;  // of a text of the sea, and of one of the land
  };
  expected_names_ = "land\nsea\n";
  EXPECT_THAT(labels(), ElementsAre(1, 0));
  options_.resume.checkpoint = Checkpoint("run", config_.vocabulary);
  EXPECT_THAT(labels(), ElementsAre(1, 0));
  Write("run/classes.txt", "land\nsea\n");
  EXPECT_THAT(labels(), ElementsAre(1, 0));
  expected_names_ = "sea\nland\n";
  Write("run/classes.txt", "sea\nland\n");
  EXPECT_THAT(labels(), ElementsAre(0, 1));
  std::swap(options_.init, options_.resume.checkpoint);
  EXPECT_THAT(labels(), ElementsAre(0, 1));
  Write("run/classes.txt", "sea\nair\n");
  EXPECT_EQ(Words(),
            "classes: expected sea, air, as run/classes.txt names the rows of the classifier, got "
            "land, sea; without that file rows stand for classes in ascending order");
  // With another number of classes the classifier is learned anew.
  expected_names_ = "land\nsea\n";
  Write("run/classes.txt", "sea\nair\nfire\n");
  EXPECT_THAT(labels(), ElementsAre(1, 0));
}

}  // namespace
}  // namespace sluice
