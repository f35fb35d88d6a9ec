// testdata/transformers has models of Hugging Face's making, with the logits that transformers
// gives in double precision; bench/peers/bert_transformers.py wrote them. Imported they give the
// same logits, and exported again the same bytes. What befalls the folders is tested by
// //models/gpt:export_test.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "framework/base/status.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/session/session.h"
#include "framework/testing/tensor_file.h"
#include "framework/train/variables.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/bert/bert.h"
#include "models/bert/bert_layout.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::EndsWith;
using ::testing::HasSubstr;

// The model that the options of a checkpoint tell of, as the trainer takes them up.
BertConfig ConfigOf(const std::map<std::string, std::string>& options) {
  BertConfig c;
  for (const auto& [name, to] :
       {std::pair{"layers", &c.layers}, std::pair{"hidden", &c.hidden},
        std::pair{"heads", &c.heads}, std::pair{"vocabulary", &c.vocabulary},
        std::pair{"positions", &c.positions}, std::pair{"sequence_length", &c.sequence_length},
        std::pair{"classes", &c.classes}}) {
    EXPECT_TRUE(absl::SimpleAtoi(options.at(name), to)) << name;
  }
  c.tanh_gelu = options.at("tanh_gelu") == "true";
  return c;
}

double LargestOf(const HostTensor& x) {
  double largest = 0;
  for (int64_t i = 0; i < x.shape.NumElements(); ++i) {
    largest = std::max<double>(largest, std::fabs(x.data<float>()[i]));
  }
  return largest;
}

class ExportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  // A folder that may be changed.
  std::string Theirs(const std::string& which) {
    const std::string to = absl::StrCat(folder_, "/", which);
    fs::copy("models/bert/testdata/transformers/" + which, to, fs::copy_options::recursive);
    for (const auto& file : fs::directory_iterator(to)) {
      fs::permissions(file, fs::perms::owner_write, fs::perm_options::add);
    }
    return to;
  }
  std::string Import(const std::string& theirs, const std::string& run = "run") {
    const auto imported = ImportBert(theirs, absl::StrCat(folder_, "/", run, "/checkpoints"));
    EXPECT_TRUE(imported.ok()) << imported.status();
    return imported.ok() ? imported->checkpoint : "";
  }
  std::string ImportError(const std::string& theirs) {
    return std::string(ImportBert(theirs, folder_ + "/none").status().message());
  }
  static void EditConfig(const std::string& theirs, const std::string& from,
                         const std::string& to) {
    const auto text = ReadText(theirs + "/config.json", 1 << 20);
    ASSERT_TRUE(text.ok()) << text.status();
    const std::string edited = absl::StrReplaceAll(*text, {{from, to}});
    ASSERT_NE(edited, *text) << from;
    auto file = FileWriter::Create(theirs + "/config.json");
    ASSERT_TRUE(file.ok() && file->Append(edited).ok() && file->Close().ok());
  }
  std::string folder_;
};

// A text of twelve pieces, which is padded, where there are sixteen positions: both the rows of the
// position table and attention end before their tables do.
void ExpectTheirLogits(const std::string& theirs, const std::string& path,
                       const std::vector<std::string>& inputs,
                       const std::vector<std::string>& outputs) {
  const auto checkpoint = Checkpoint::Load(path);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  BertConfig config = ConfigOf(checkpoint->meta().options);
  const Tensors recorded = ReadTensorFile(theirs + "/logits.safetensors");
  config.batch = 2;
  config.sequence_length = 12;
  config.predictions = 3;
  config.dropout = 0;
  Graph train, logits;
  ASSERT_TRUE(BuildBertTrain(config, OptimizerOptions(), &train).ok());
  ASSERT_TRUE(BuildBertLogits(config, &logits).ok());
  const std::vector<ProgramGraph> programs = {{"train", &train}, {"logits", &logits}};
  const auto session = Session::Start(programs, SessionOptions());
  ASSERT_TRUE(session.ok()) << session.status();
  // As the trainer resumes: nothing is missing, and nothing is left over.
  const absl::Status loaded = LoadVariables(*checkpoint, session->get());
  ASSERT_TRUE(loaded.ok()) << loaded;
  std::map<std::string, const HostTensor*> feeds;
  for (const std::string& name : inputs) feeds[name] = &recorded.at(name);
  ASSERT_TRUE((*session)->Step("logits", {feeds.begin(), feeds.end()}).ok());
  const auto fetches = (*session)->Next();
  ASSERT_TRUE(fetches.ok()) << fetches.status();
  for (const std::string& name : outputs) {
    SCOPED_TRACE(name);
    const HostTensor &got = fetches->at(name), &expected = recorded.at(name);
    ASSERT_EQ(got.shape, expected.shape);
    const double largest = LargestOf(expected);
    double difference = 0;
    for (int64_t i = 0; i < got.shape.NumElements(); ++i) {
      difference =
          std::max<double>(difference, std::fabs(got.data<float>()[i] - expected.data<float>()[i]));
    }
    EXPECT_GT(largest, 0.1);
    EXPECT_LE(difference, 1e-6 * largest);
  }
}

TEST_F(ExportTest, ImportedModelsGiveTheLogitsOfTransformers) {
  const std::string pretraining = Theirs("pretraining"), classes = Theirs("classes");
  ExpectTheirLogits(pretraining, Import(pretraining), {"tokens", "segments", "length", "positions"},
                    {"masked", "next"});
  ExpectTheirLogits(classes, Import(classes, "told"), {"tokens", "segments", "length"},
                    {"classes"});
}

TEST_F(ExportTest, ThereAndBackIsBitwise) {
  for (const auto& [which, tensors] : {std::pair{"pretraining", 46}, std::pair{"classes", 41}}) {
    SCOPED_TRACE(which);
    const std::string theirs = Theirs(which), ours = absl::StrCat(folder_, "/ours_", which);
    const std::string imported = Import(theirs, absl::StrCat("run_", which));
    const auto files = ExportBert(imported, ours);
    ASSERT_TRUE(files.ok()) << files.status();
    EXPECT_THAT(*files, ::testing::ElementsAre("model.safetensors", "config.json", "tokenizer.json",
                                               "tokenizer_config.json", "vocab.txt"));
    const Tensors expected = ReadTensorFile(theirs + "/model.safetensors");
    EXPECT_EQ(expected.size(), tensors);
    ExpectSameTensors(ReadTensorFile(ours + "/model.safetensors"), expected);
    EXPECT_EQ(*ReadText(ours + "/vocab.txt", 1 << 20), *ReadText(theirs + "/vocab.txt", 1 << 20));
    const std::string again = Import(ours, absl::StrCat("again_", which));
    ExpectSameTensors(ReadTensorFile(again + "/tensors.safetensors"),
                      ReadTensorFile(imported + "/tensors.safetensors"));
    EXPECT_EQ(Checkpoint::Load(again)->meta().options, Checkpoint::Load(imported)->meta().options);
  }
}

// As files of Google's weights are: other names of norms, the tied matrix and counted positions
// once more. And a bare encoder, without a prefix, which begins a model with heads.
TEST_F(ExportTest, OtherFilesOfTheSameModel) {
  const std::string theirs = Theirs("pretraining");
  const std::string checkpoint = Import(theirs);
  Tensors old, bare;
  for (const auto& [name, tensor] : ReadTensorFile(theirs + "/model.safetensors")) {
    old[absl::StrReplaceAll(name, {{"LayerNorm.weight", "LayerNorm.gamma"},
                                   {"LayerNorm.bias", "LayerNorm.beta"}})] = tensor;
    if (absl::StartsWith(name, "bert.")) bare[name.substr(5)] = tensor;
  }
  old["cls.predictions.decoder.weight"] = old.at("bert.embeddings.word_embeddings.weight");
  old["cls.predictions.decoder.bias"] = old.at("cls.predictions.bias");
  old["bert.embeddings.position_ids"] = HostTensor(DType::kI32, {1, 16});
  WriteTensorFile(theirs + "/model.safetensors", old);
  ExpectSameTensors(ReadTensorFile(Import(theirs, "old") + "/tensors.safetensors"),
                    ReadTensorFile(checkpoint + "/tensors.safetensors"));
  WriteTensorFile(theirs + "/model.safetensors", bare);
  const Tensors encoder = ReadTensorFile(Import(theirs, "bare") + "/tensors.safetensors");
  EXPECT_EQ(encoder.count("h1/mlp/down/weight"), 1u);
  EXPECT_EQ(encoder.count("masked/bias"), 0u);

  old["cls.predictions.decoder.weight"].data<float>()[3] += 1;
  WriteTensorFile(theirs + "/model.safetensors", old);
  EXPECT_THAT(ImportError(theirs),
              HasSubstr("cls.predictions.decoder.weight: expected "
                        "bert.embeddings.word_embeddings.weight again, got another tensor"));
}

TEST_F(ExportTest, WhatThisModelCannotBeIsNamed) {
  const std::string theirs = Theirs("pretraining");
  for (const auto& [from, to, error] :
       {std::tuple{"\"gelu\"", "\"relu\"",
                   "config.json: hidden_act: expected \"gelu\", got \"relu\""},
        std::tuple{"\"intermediate_size\": 32", "\"intermediate_size\": 48",
                   "config.json: intermediate_size: expected 32, got 48"},
        std::tuple{"\"num_attention_heads\": 2", "\"num_attention_heads\": 3",
                   "config.json: heads: expected a divisor of hidden, 8, got 3"},
        std::tuple{"\"vocab_size\": 40", "\"vocab_size\": \"many\"",
                   "config.json: vocab_size: expected an integer"},
        std::tuple{"\"vocab_size\": 40", "\"vocab_size\": 41",
                   "bert.embeddings.word_embeddings.weight: expected F32, F16 or BF16 [41,8], got "
                   "F32 [40,8]"},
        std::tuple{"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3",
                   "expected a tensor bert.encoder.layer.2.attention.self.query.weight"},
        std::tuple{"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1",
                   "bert.encoder.layer.1.attention.output.LayerNorm.bias is not BERT's"}}) {
    SCOPED_TRACE(to);
    EditConfig(theirs, from, to);
    EXPECT_THAT(ImportError(theirs), HasSubstr(error));
    EditConfig(theirs, to, from);
  }
  const std::string checkpoint = Import(theirs);
  EXPECT_THAT(std::string(ExportBert(checkpoint, theirs).status().message()),
              HasSubstr("logits.safetensors"));
}

// The kind of a model is judged before any of its sizes is looked for.
TEST_F(ExportTest, OtherKindsOfModelsAreNamedFirst) {
  const std::string theirs = Theirs("pretraining"), at = theirs + "/config.json: ";
  const auto write = [&theirs](const std::string& text) {
    auto file = FileWriter::Create(theirs + "/config.json");
    ASSERT_TRUE(file.ok() && file->Append(text).ok() && file->Close().ok());
  };
  write(R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 12})");
  EXPECT_EQ(ImportError(theirs), at + "model_type: expected \"bert\", got \"llama\"; a model of "
                                      "another kind cannot be imported here");
  for (const char* other : {"BertForTokenClassification", "BertForMultipleChoice",
                            "BertForQuestionAnswering", "BertLMHeadModel", "NewModel"}) {
    write(absl::StrCat(R"({"model_type": "bert", "architectures": [")", other, "\"]}"));
    EXPECT_EQ(ImportError(theirs),
              absl::StrCat(at,
                           "architectures: expected BertForPreTraining, BertForMaskedLM, "
                           "BertForNextSentencePrediction, BertModel, "
                           "BertForSequenceClassification, got ",
                           other, "; a model for another task cannot be imported here"));
  }
  write(R"({"model_type": "bert", "architectures": "BertModel"})");
  EXPECT_EQ(ImportError(theirs),
            at + "architectures: expected a list of strings, got \"BertModel\"");
  write(R"({"model_type": "bert", "quantization_config": {"bits": 4}})");
  EXPECT_EQ(ImportError(theirs), at + "quantization_config: expected null, got {\"bits\":4}");
  write(R"({"model_type": "bert"})");
  EXPECT_EQ(ImportError(theirs), at + "vocab_size: expected an integer, got none");
  fs::rename(theirs + "/config.json", theirs + "/bert_config.json");
  EXPECT_EQ(ImportError(theirs), theirs +
                                     ": expected config.json as transformers writes it, got "
                                     "bert_config.json, logits.safetensors, "
                                     "model.safetensors, vocab.txt");
  EXPECT_EQ(
      ImportError(theirs + "/model.safetensors"),
      theirs + "/model.safetensors: expected a folder with config.json and weights, got a file");
}

// The names of a classifier's tensors do not say which task it has.
TEST_F(ExportTest, ClassifiersOfAnotherTaskAreRefused) {
  const std::string theirs = Theirs("classes"), weights = theirs + "/model.safetensors";
  const Tensors all = ReadTensorFile(weights);
  const auto error_of = [&](const Tensors& tensors) {
    WriteTensorFile(weights, tensors);
    return ImportError(theirs);
  };
  EXPECT_EQ(error_of(all), "");
  EditConfig(theirs, "\"hidden_act\"",
             "\"problem_type\": \"multi_label_classification\", \"hidden_act\"");
  EXPECT_THAT(ImportError(theirs),
              HasSubstr("config.json: problem_type: expected \"single_label_classification\", got "
                        "\"multi_label_classification\""));
  EditConfig(theirs, "multi_label", "single_label");
  EXPECT_EQ(error_of(all), "");
  Tensors none = all, number = all, words = all;
  none.erase("classifier.weight");
  none.erase("classifier.bias");
  EXPECT_THAT(error_of(none), HasSubstr("expected a tensor classifier.bias of a "
                                        "BertForSequenceClassification, got 39 others such as "));
  number["classifier.weight"] = HostTensor(DType::kF32, {1, 8});
  number["classifier.bias"] = HostTensor(DType::kF32, {1});
  EXPECT_THAT(error_of(number), HasSubstr("classifier.bias: expected at least two classes, got 1, "
                                          "as of a model that gives a number"));
  words.erase("bert.pooler.dense.weight");
  words.erase("bert.pooler.dense.bias");
  const std::string of_words =
      "classifier.bias: expected a classifier of whole texts, with a pooler "
      "before it, got one without, as of a model that labels words";
  EXPECT_THAT(error_of(words), HasSubstr(of_words));
  // Also where nobody says what the model was saved as, or says something else.
  EditConfig(theirs, "\"BertForSequenceClassification\"", "");
  EXPECT_THAT(error_of(words), HasSubstr(of_words));
  EXPECT_EQ(error_of(all), "");
  EditConfig(theirs, "\"architectures\": [", "\"architectures\": [\"BertForMaskedLM\"");
  EXPECT_THAT(error_of(all), HasSubstr("classifier.bias: expected no classifier in a "
                                       "BertForMaskedLM, as config.json calls the model, got one"));
}

// A classifier's rows keep the names of their classes.
TEST_F(ExportTest, NamesOfClassesGoBothWays) {
  const std::string theirs = Theirs("classes");
  Import(theirs);
  EXPECT_FALSE(fs::exists(folder_ + "/run/classes.txt"));  // LABEL_0 .. are no names
  const auto edit = [&](const std::string& from, const std::string& to) {
    EditConfig(theirs, absl::StrCat("\": \"", from, "\""), absl::StrCat("\": \"", to, "\""));
  };
  edit("LABEL_0", "sea");
  edit("LABEL_1", "air");
  edit("LABEL_2", "land");
  const std::string imported = Import(theirs);
  EXPECT_EQ(*ReadText(folder_ + "/run/classes.txt", 100), "sea\nair\nland\n");
  ASSERT_EQ(ExportBert(imported, folder_ + "/hf").status(), absl::OkStatus());
  const auto config = ReadText(folder_ + "/hf/config.json", 1 << 20);
  EXPECT_THAT(*config, HasSubstr("\"0\": \"sea\",\n    \"1\": \"air\",\n    \"2\": \"land\""));
  EXPECT_THAT(*config, HasSubstr("\"air\": 1"));
  // Names in Latin-1, which no JSON holds.
  auto names = FileWriter::Create(folder_ + "/run/classes.txt");
  ASSERT_TRUE(names.ok() && names->Append("sea\n\xe9t\xe9\nland\n").ok() && names->Close().ok());
  EXPECT_THAT(
      std::string(ExportBert(imported, folder_ + "/hf").status().message()),
      EndsWith("/run/classes.txt, line 2: expected the name of a class in UTF-8, got "
               "\"\\xe9t\\xe9\"; iconv -f ISO-8859-1 -t UTF-8 converts the file if it is in "
               "Latin-1"));
  edit("land", "air");
  EXPECT_THAT(ImportError(theirs),
              HasSubstr("config.json: id2label: expected a name for each class "
                        "from 0 on, each once, got air twice"));
  EditConfig(theirs, "\"1\": \"air\",", "");
  EXPECT_THAT(ImportError(theirs), HasSubstr("each once, got none of 1"));
  EditConfig(theirs, "\"2\": \"air\"", "\"1\": \"air\"");
  EXPECT_THAT(ImportError(theirs),
              HasSubstr("config.json: id2label: expected 3 classes, as the classifier has, got 2"));
}

// From DistributedDataParallel, compiled by blocks, and in shards: the same checkpoint.
TEST_F(ExportTest, WrappedNamesAndShardsAreTheSameModel) {
  const std::string theirs = Theirs("pretraining"), weights = theirs + "/model.safetensors";
  const Tensors expected = ReadTensorFile(Import(theirs, "plain") + "/tensors.safetensors");
  Tensors wrapped, some, others;
  for (const auto& [name, tensor] : ReadTensorFile(weights)) {
    wrapped[absl::StrCat("module.",
                         absl::StrReplaceAll(name, {{"layer.0.", "layer.0._orig_mod."}}))] = tensor;
    (some.size() > others.size() ? others : some)[name] = tensor;
  }
  WriteTensorFile(weights, wrapped);
  ExpectSameTensors(ReadTensorFile(Import(theirs, "wrapped") + "/tensors.safetensors"), expected);
  fs::remove(weights);
  WriteTensorFile(theirs + "/some.safetensors", some);
  WriteTensorFile(theirs + "/others.safetensors", others);
  std::string map;
  for (const auto& [name, tensor] : some) {
    absl::StrAppend(&map, map.empty() ? "" : ", ", "\"", name, "\": \"some.safetensors\"");
  }
  for (const auto& [name, tensor] : others) {
    absl::StrAppend(&map, ", \"", name, "\": \"others.safetensors\"");
  }
  auto index = FileWriter::Create(weights + ".index.json");
  ASSERT_TRUE(index.ok() && index->Append(absl::StrCat("{\"weight_map\": {", map, "}}")).ok());
  ASSERT_TRUE(index->Close().ok());
  const std::string sharded = Import(theirs, "sharded");
  ExpectSameTensors(ReadTensorFile(sharded + "/tensors.safetensors"), expected);
  // And out again.
  const auto exported = ExportBert(sharded, folder_ + "/hf", {.most_shard_bytes = 5000});
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_EQ(exported->front(), "model-00001-of-00003.safetensors");
  ExpectSameTensors(ReadTensorFile(Import(folder_ + "/hf", "again") + "/tensors.safetensors"),
                    expected);
}

// A model without the vocabulary that its rows stand for would be of no use here.
TEST_F(ExportTest, AModelWithoutItsVocabularyIsRefused) {
  const std::string theirs = Theirs("pretraining");
  EditConfig(theirs, "\"vocab_size\": 40", "\"vocab_size\": 39");
  EXPECT_EQ(ImportError(theirs), theirs +
                                     "/vocab.txt: expected at most 39 pieces, as vocab_size of "
                                     "config.json says, got 40");
  fs::remove(theirs + "/vocab.txt");
  EXPECT_EQ(ImportError(theirs),
            theirs + ": expected word pieces, vocab.txt or tokenizer.json, got neither");
  EXPECT_FALSE(fs::exists(folder_ + "/none"));
}

}  // namespace
}  // namespace sluice
