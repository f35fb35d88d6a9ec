// Imported models train on, each by its own vocabulary: cased ones, and those of tokenizer.json.
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "framework/testing/trainer_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/bert/bert_layout.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ImportTest : public TrainerProcessTest {
 protected:
  ImportTest() : TrainerProcessTest("models/bert/train") {}

  // A model of transformers' making whose vocabulary is the one given; w0 .. are words of three
  // classes.
  void WriteModel(const std::string& name, const std::map<std::string, std::string>& files) {
    const std::string to = absl::StrCat(folder(), "/", name);
    fs::create_directories(to);
    for (const char* file : {"config.json", "model.safetensors"}) {
      fs::copy(absl::StrCat("models/bert/testdata/transformers/classes/", file),
               absl::StrCat(to, "/", file));
    }
    for (const auto& [file, text] : files) Write(absl::StrCat(name, "/", file), text);
  }
  // Forty pieces: the special ones, and `word` with a number.
  static std::string Vocabulary(const std::string& word) {
    std::string text = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (int i = 0; i < 35; ++i) absl::StrAppend(&text, word, i, "\n");
    return text;
  }
  void WriteTexts(const std::string& name, const std::string& word) {
    std::string text;
    for (int i = 0; i < 60; ++i) {
      absl::StrAppend(&text, "class", i % 3, "\t");
      for (int j = 0; j < 6; ++j) absl::StrAppend(&text, word, (11 * i + 7 * j) % 35, " ");
      absl::StrAppend(&text, "\n");
    }
    Write(name + "-train.tab", text);
    Write(name + "-test.tab", text);
  }
  void Import(const std::string& model, const std::string& run) {
    const auto imported = ImportBert(absl::StrCat(folder(), "/", model),
                                     absl::StrCat(folder(), "/", run, "/checkpoints"));
    ASSERT_TRUE(imported.ok()) << imported.status();
  }
  // The losses of a run's log, as it has written them.
  std::vector<std::string> Losses(const std::string& run) {
    std::vector<std::string> losses;
    const std::string log = Read(run + "/log.jsonl");
    for (size_t at = log.find("loss\":"); at != std::string::npos;
         at = log.find("loss\":", at + 1)) {
      losses.push_back(log.substr(at, log.find_first_of(",}", at) - at));
    }
    return losses;
  }
  void Train(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--batch=6", "--warmup=1", "--mesh=data=1", "--threads=1",
                                       "--measure_peak=false"});
    const EndedProcess ended = Run(arguments);
    ASSERT_EQ(ended.code, 0) << ended.error;
  }
};

// A word with capitals and an accent, and one of small letters for the same row.
TEST_F(ImportTest, ACasedModelLearnsWhatOneOfSmallLettersLearns) {
  const std::string cased = "Caf\u00e9", lower = "xcafe";
  WriteTexts("cased", cased);
  WriteTexts("lower", lower);
  WriteModel("cased", {{"vocab.txt", Vocabulary(cased)},
                       {"tokenizer_config.json", R"({"do_lower_case": false})"}});
  WriteModel("lower", {{"vocab.txt", Vocabulary(lower)}});
  for (const std::string name : {"cased", "lower"}) {
    const std::string run = "run_" + name, data = absl::StrCat("--data=", name, "-train.tab");
    Import(name, run);
    Train({"--resume=" + run, data, "--steps=3", "--save_every=2"});
    Train({"--resume=" + run, data, "--steps=5"});
    Train({"--preset=classify", "--init=" + run + "/checkpoints/step-000003", data, "--layers=2",
           "--hidden=8", "--heads=2", "--vocabulary=40", "--sequence_length=16", "--classes=3",
           "--tanh_gelu", "--dropout=0", "--steps=2", "--out=begun_" + name});
  }
  EXPECT_GT(Losses("run_cased").size(), 6u);
  EXPECT_EQ(Losses("run_cased"), Losses("run_lower"));
  EXPECT_EQ(Losses("begun_cased"), Losses("begun_lower"));
  // And is exported as cased, which an import takes up again.
  const auto exported =
      ExportBert(folder() + "/begun_cased/checkpoints/step-000002", folder() + "/hf");
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_THAT(Read("hf/tokenizer_config.json"), HasSubstr("\"do_lower_case\": false"));
  EXPECT_EQ(Read("hf/vocab.txt"), Vocabulary(cased));
  Import("hf", "again");
  EXPECT_EQ(Read("again/vocab.txt"), Read("run_cased/vocab.txt"));
  EXPECT_EQ(Read("again/tokenizer_config.json"), Read("run_cased/tokenizer_config.json"));
}

TEST_F(ImportTest, ATokenizerJsonIsTheVocabulary) {
  WriteTexts("texts", "w");
  WriteModel("pieces", {{"vocab.txt", Vocabulary("w")}});
  std::string vocabulary;
  int id = 0;
  for (const std::string& piece :
       std::vector<std::string>{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) {
    absl::StrAppend(&vocabulary, vocabulary.empty() ? "" : ",", "\"", piece, "\":", id++);
  }
  for (int i = 0; i < 35; ++i) absl::StrAppend(&vocabulary, ",\"w", i, "\":", id++);
  WriteModel("json", {{"tokenizer.json", absl::StrCat(R"({"normalizer": {"type": "BertNormalizer",
      "lowercase": true}, "pre_tokenizer": {"type": "BertPreTokenizer"}, "model": {"type":
      "WordPiece", "unk_token": "[UNK]", "vocab": {)",
                                                      vocabulary, "}}}")}});
  for (const std::string name : {"pieces", "json"}) {
    Import(name, "run_" + name);
    Train({"--resume=run_" + name, "--data=texts-train.tab", "--steps=2"});
  }
  EXPECT_GT(Losses("run_json").size(), 2u);
  EXPECT_EQ(Losses("run_json"), Losses("run_pieces"));
  EXPECT_EQ(Read("run_json/vocab.txt"), Read("run_pieces/vocab.txt"));
}

}  // namespace
}  // namespace sluice
