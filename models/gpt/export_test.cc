// testdata/gpt2 is a model that Hugging Face's transformers made, with the logits that it gives;
// bench/peers/gpt2_transformers.py wrote it. Imported it gives the same logits, and exported again
// the same bytes.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "framework/base/status.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/checkpoint/faulty_disk.h"
#include "framework/session/session.h"
#include "framework/train/run_lock.h"
#include "framework/train/variables.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/gpt/gpt.h"
#include "models/gpt/gpt2_layout.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Bytes = std::map<std::string, std::vector<std::byte>>;

constexpr char kTheirs[] = "models/gpt/testdata/gpt2";

class ExportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_ + "/theirs");
    for (const char* name : {"/config.json", "/model.safetensors"}) {
      fs::copy(std::string(kTheirs) + name, folder_ + "/theirs" + name);
    }
    fs::permissions(folder_ + "/theirs/config.json", fs::perms::owner_write, fs::perm_options::add);
  }
  std::string Import() {
    auto path = ImportGpt2(folder_ + "/theirs", folder_ + "/checkpoints");
    EXPECT_TRUE(path.ok()) << path.status();
    return path.ok() ? path->checkpoint : "";
  }
  std::string ImportError() {
    return std::string(ImportGpt2(folder_ + "/theirs", folder_ + "/none").status().message());
  }
  void EditConfig(const std::string& from, const std::string& to) {
    const std::string path = folder_ + "/theirs/config.json";
    const auto text = ReadText(path, 1 << 20);
    ASSERT_TRUE(text.ok()) << text.status();
    const std::string edited = absl::StrReplaceAll(*text, {{from, to}});
    ASSERT_NE(edited, *text) << from;
    auto file = FileWriter::Create(path);
    ASSERT_TRUE(file.ok() && file->Append(edited).ok() && file->Close().ok());
  }
  // Writes the model's file again with one tensor more, or another in the place of one.
  void AddTensor(const std::string& name, const HostTensor& value) {
    const std::string path = folder_ + "/theirs/model.safetensors";
    const auto file = SafetensorsReader::Open(path);
    ASSERT_TRUE(file.ok()) << file.status();
    std::vector<TensorEntry> entries = file->entries();
    entries.erase(std::remove_if(entries.begin(), entries.end(),
                                 [&](const TensorEntry& entry) { return entry.name == name; }),
                  entries.end());
    entries.push_back({name, value.dtype, value.shape});
    const auto source = [&](const TensorEntry& entry) -> absl::StatusOr<HostTensor> {
      return entry.name == name ? value : file->Read(entry.name);
    };
    ASSERT_TRUE(WriteSafetensors(path + ".new", entries, {}, source).ok());
    fs::rename(path + ".new", path);
  }
  static Bytes Read(const std::string& path) {
    Bytes bytes;
    const auto file = SafetensorsReader::Open(path);
    EXPECT_TRUE(file.ok()) << file.status();
    if (!file.ok()) return bytes;
    for (const TensorEntry& entry : file->entries()) {
      const auto value = file->Read(entry.name);
      EXPECT_TRUE(value.ok()) << value.status();
      bytes[std::string(absl::StripPrefix(entry.name, "transformer."))] = value->bytes;
    }
    return bytes;
  }
  std::string folder_;
};

TEST_F(ExportTest, ImportedModelGivesTheLogitsOfTransformers) {
  const auto checkpoint = Checkpoint::Load(Import());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->meta().options.at("heads"), "2");
  const GptConfig config = {
      .sequence_length = 8, .layers = 2, .heads = 2, .hidden = 8, .batch = 2, .dropout = 0};
  Graph train, prefill;
  ASSERT_TRUE(BuildGptTrain(config, OptimizerOptions(), &train).ok());
  ASSERT_TRUE(BuildGptPrefill(config, &prefill).ok());
  const std::vector<ProgramGraph> programs = {{"train", &train}, {"prefill", &prefill}};
  const auto session = Session::Start(programs, SessionOptions());
  ASSERT_TRUE(session.ok()) << session.status();
  // As the trainer resumes: nothing is missing, and nothing is left over.
  const absl::Status loaded = LoadVariables(*checkpoint, session->get());
  ASSERT_TRUE(loaded.ok()) << loaded;
  const auto recorded = SafetensorsReader::Open(std::string(kTheirs) + "/logits.safetensors");
  ASSERT_TRUE(recorded.ok()) << recorded.status();
  const auto tokens = recorded->Read("tokens"), expected = recorded->Read("logits");
  ASSERT_TRUE(tokens.ok() && expected.ok());
  ASSERT_EQ(expected->shape, (Shape{1, 8, 256}));
  double largest = 0, difference = 0;
  HostTensor last(DType::kI32, {1});
  for (int row = 0; row < 8; ++row) {
    last.data<int32_t>()[0] = row;
    ASSERT_TRUE((*session)->Step("prefill", {{"tokens", &*tokens}, {"last", &last}}).ok());
    const auto fetches = (*session)->Next();
    ASSERT_TRUE(fetches.ok()) << fetches.status();
    const HostTensor& logits = fetches->at("logits");
    for (int i = 0; i < 256; ++i) {
      const double value = expected->data<float>()[row * 256 + i];
      largest = std::max(largest, std::fabs(value));
      difference = std::max(difference, std::fabs(logits.data<float>()[i] - value));
    }
  }
  EXPECT_GT(largest, 1);
  EXPECT_LE(difference, 1e-5 * largest);
}

TEST_F(ExportTest, SaysWithWhichDropoutARunWasTrained) {
  const auto imported = Checkpoint::Load(Import());
  ASSERT_TRUE(imported.ok()) << imported.status();
  const auto source = [&](const TensorEntry& entry) { return imported->Read(entry.name); };
  const auto config_of = [&](const std::map<std::string, std::string>& rates) {
    CheckpointMeta meta = imported->meta();
    meta.options.insert(rates.begin(), rates.end());
    const std::string folder = absl::StrCat(folder_, "/with", rates.size());
    const auto saved = SaveCheckpoint(folder, meta, imported->tensors(), source);
    EXPECT_TRUE(saved.ok()) << saved.status();
    EXPECT_TRUE(saved.ok() && ExportGpt2(*saved, 0, folder + "_hf").ok());
    return *ReadText(folder + "_hf/config.json", 1 << 20);
  };
  EXPECT_THAT(config_of({{"dropout", "0.25"}, {"attention_dropout", "0.125"}}),
              AllOf(HasSubstr("\"attn_pdrop\": 0.125"), HasSubstr("\"resid_pdrop\": 0.25")));
  EXPECT_THAT(config_of({}),
              AllOf(HasSubstr("\"attn_pdrop\": 0.0"), HasSubstr("\"resid_pdrop\": 0.0")));
}

TEST_F(ExportTest, ThereAndBackIsBitwise) {
  const std::string imported = Import();
  const auto exported = ExportGpt2(imported, 0, folder_ + "/ours");
  ASSERT_TRUE(exported.ok()) << exported.status();
  const Bytes theirs = Read(folder_ + "/theirs/model.safetensors");
  EXPECT_EQ(theirs.size(), 28u);
  EXPECT_EQ(Read(folder_ + "/ours/model.safetensors"), theirs);
  // And from our side: checkpoint, folder, checkpoint.
  const auto again = ImportGpt2(folder_ + "/ours", folder_ + "/again");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Read(again->checkpoint + "/tensors.safetensors"),
            Read(imported + "/tensors.safetensors"));
  EXPECT_TRUE(ExportGpt2(again->checkpoint, 2, folder_ + "/last").ok());
  for (const char* name : {"/config.json", "/model.safetensors"}) {
    EXPECT_EQ(*ReadText(folder_ + "/last" + name, 1 << 20),
              *ReadText(folder_ + "/ours" + name, 1 << 20));
  }
}

// GPT-2's own vocabulary goes both ways as it is, without padding.
TEST_F(ExportTest, FiftyThousandTokensThereAndBackIsBitwise) {
  EditConfig("\"vocab_size\": 256", "\"vocab_size\": 50257");
  HostTensor table(DType::kF32, {50257, 8});
  for (int64_t i = 0; i < table.shape.NumElements(); ++i) {
    table.data<float>()[i] = std::sin(static_cast<float>(i));
  }
  AddTensor("transformer.wte.weight", table);
  const std::string imported = Import();
  const auto ours = Checkpoint::Load(imported);
  ASSERT_TRUE(ours.ok()) << ours.status();
  EXPECT_EQ(ours->Read("embedding/table")->bytes, table.bytes);
  const auto exported = ExportGpt2(imported, 0, folder_ + "/ours");
  ASSERT_TRUE(exported.ok()) << exported.status();
  const Bytes theirs = Read(folder_ + "/theirs/model.safetensors");
  EXPECT_EQ(theirs.at("wte.weight").size(), 50257u * 8 * 4);
  EXPECT_EQ(Read(folder_ + "/ours/model.safetensors"), theirs);
  EXPECT_THAT(
      *ReadText(folder_ + "/ours/config.json", 1 << 20),
      ::testing::AllOf(HasSubstr("\"vocab_size\": 50257"), HasSubstr("\"eos_token_id\": 50256")));
  const auto again = ImportGpt2(folder_ + "/ours", folder_ + "/again");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Read(again->checkpoint + "/tensors.safetensors"),
            Read(imported + "/tensors.safetensors"));
}

// A model in bf16 with a mask of bytes: widened, and the masks left where they are.
TEST_F(ExportTest, SixteenBitsAreWidenedAndMasksOfAnyTypeLeftOut) {
  const std::string path = folder_ + "/theirs/model.safetensors";
  const auto file = SafetensorsReader::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  const std::string mask = "transformer.h.0.attn.bias";
  std::vector<TensorEntry> entries = {{mask, DType::kI32, {1, 1, 2, 2}}};
  for (const TensorEntry& entry : file->entries()) {
    entries.push_back({entry.name, DType::kBF16, entry.shape});
  }
  const auto source = [&](const TensorEntry& entry) -> absl::StatusOr<HostTensor> {
    HostTensor narrow(entry.dtype, entry.shape);
    if (entry.name == mask) return narrow;
    ASSIGN_OR_RETURN(const HostTensor wide, file->Read(entry.name));
    for (int64_t i = 0; i < entry.shape.NumElements(); ++i) {
      narrow.data<uint16_t>()[i] = FloatToBFloat16(wide.data<float>()[i]);
    }
    return narrow;
  };
  ASSERT_TRUE(WriteSafetensors(path + ".new", entries, {}, source).ok());
  // The format's own word for a mask, of the same length and size.
  auto text = ReadText(path + ".new", 1 << 24);
  ASSERT_TRUE(text.ok());
  const size_t word = text->find("\"I32\"");
  ASSERT_NE(word, std::string::npos);
  text->replace(word, 5, "\"U32\"");
  auto writer = FileWriter::Create(path);
  ASSERT_TRUE(writer.ok() && writer->Append(*text).ok() && writer->Close().ok());
  const auto imported = ImportGpt2(folder_ + "/theirs", folder_ + "/checkpoints");
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->widened, 28);
  const auto narrow = SafetensorsReader::Open(path);
  ASSERT_TRUE(narrow.ok()) << narrow.status();
  const auto checkpoint = Checkpoint::Load(imported->checkpoint);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->Read("h1/mlp/up/weight")->bytes,
            narrow->ReadAsF32("transformer.h.1.mlp.c_fc.weight")->bytes);
}

TEST_F(ExportTest, MasksAndATiedHeadAreLeftOut) {
  const auto file = SafetensorsReader::Open(folder_ + "/theirs/model.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  const auto table = file->Read("transformer.wte.weight");
  ASSERT_TRUE(table.ok()) << table.status();
  AddTensor("lm_head.weight", *table);
  AddTensor("transformer.h.0.attn.bias", HostTensor(DType::kF32, {1, 1, 8, 8}));
  Import();
  AddTensor("transformer.h.0.attn.adapter", HostTensor(DType::kF32, {8}));
  EXPECT_THAT(ImportError(), HasSubstr("transformer.h.0.attn.adapter is not GPT-2's"));
}

TEST_F(ExportTest, AHeadOfItsOwnIsRefused) {
  AddTensor("lm_head.weight", HostTensor(DType::kF32, {256, 8}));
  EXPECT_THAT(ImportError(), HasSubstr("lm_head.weight: expected transformer.wte.weight again"));
}

TEST_F(ExportTest, AConfigOfBracketsIsRefused) {
  auto file = FileWriter::Create(folder_ + "/theirs/config.json");
  const std::string nested = std::string(100'000, '[') + std::string(100'000, ']');
  ASSERT_TRUE(file.ok() && file->Append("{\"n_inner\":" + nested + "}").ok());
  ASSERT_TRUE(file->Close().ok());
  EXPECT_THAT(ImportError(), HasSubstr("config.json: expected a JSON object of at most 16 levels"));
}

TEST_F(ExportTest, KilledAtAnyCallItLeavesTheOlderExportOrTheNewOne) {
  const std::string imported = Import(), out = folder_ + "/hf";
  const std::vector<std::string> files = {"config.json", "model.safetensors"};
  ASSERT_TRUE(ExportGpt2(imported, 0, folder_ + "/new").ok());
  const auto put = [](const std::string& path, const std::string& text) {
    auto file = FileWriter::Create(path);
    ASSERT_TRUE(file.ok() && file->Append(text).ok() && file->Close().ok());
  };
  int older = 0, newer = 0;
  for (int64_t call = 0;; ++call) {
    fs::create_directories(out);
    for (const std::string& name : files) put(out + "/" + name, "older");
    const pid_t child = fork();
    if (child == 0) {
      FaultyDisk disk(DiskFault::kKill, call);
      _exit(ExportGpt2(imported, 0, out + "/", {.faults = &disk}).ok() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    const bool is_older = *ReadText(out + "/config.json", 1 << 20) == "older";
    ++(is_older ? older : newer);
    EXPECT_EQ(*ListDirectory(out), files);
    for (const std::string& name : files) {
      const std::string expected =
          is_older ? "older" : *ReadText(absl::StrCat(folder_, "/new/", name), 1 << 24);
      EXPECT_TRUE(*ReadText(absl::StrCat(out, "/", name), 1 << 24) == expected)
          << name << " after call " << call;
    }
    if (!WIFEXITED(status)) continue;
    EXPECT_EQ(WEXITSTATUS(status), 0);
    break;
  }
  EXPECT_GT(older, 5);
  EXPECT_GT(newer, 1);
  EXPECT_FALSE(fs::exists(out + ".export.tmp"));
}

TEST_F(ExportTest, AFolderHereIsMade) {
  const std::string imported = Import();
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  EXPECT_EQ(ExportGpt2(imported, 0, "hf/").status(), absl::OkStatus());
  fs::current_path(before);
  EXPECT_EQ(*ListDirectory(folder_ + "/hf"),
            (std::vector<std::string>{"config.json", "model.safetensors"}));
}

// The folder is replaced as a whole, and what else lies in it with it.
TEST_F(ExportTest, AFolderWithOtherFilesIsRefused) {
  const std::string imported = Import(), out = folder_ + "/hf";
  fs::create_directories(out);
  fs::copy(folder_ + "/theirs/config.json", out + "/tokenizer.json");
  EXPECT_THAT(std::string(ExportGpt2(imported, 0, out).status().message()),
              HasSubstr("hf also has tokenizer.json"));
  EXPECT_EQ(*ListDirectory(out), std::vector<std::string>{"tokenizer.json"});
}

TEST_F(ExportTest, ModelsThatThisOneCannotBeAreRefused) {
  EditConfig("gelu_new", "relu");
  EXPECT_THAT(ImportError(), HasSubstr("activation_function: expected \"gelu_new\", got \"relu\""));
  EditConfig("relu", "gelu_new");
  EditConfig("1e-05", "1e-12");
  EXPECT_THAT(ImportError(), HasSubstr("layer_norm_epsilon: expected 1e-05, got 1e-12"));
  EditConfig("1e-12", "1e-05");
  EditConfig("\"n_layer\": 2", "\"n_layer\": 3");
  EXPECT_THAT(ImportError(), HasSubstr("expected a tensor transformer.h.2.ln_1.weight"));
  EditConfig("\"n_layer\": 3", "\"n_layer\": 1");
  EXPECT_THAT(ImportError(), HasSubstr("transformer.h.1.attn.c_attn.bias is not GPT-2's"));
  EditConfig("\"n_positions\": 8", "\"n_positions\": 9");
  EXPECT_THAT(ImportError(),
              HasSubstr("wpe.weight: expected F32, F16 or BF16 [9,8], got F32 [8,8]"));
}

// What lies there unfinished is cleared away once its process is no more, and not before.
TEST_F(ExportTest, OneProcessAtATimeWritesThere) {
  const std::string checkpoint = Import(), out = fs::canonical(folder_).string() + "/hf";
  ASSERT_TRUE(CreateDirectories(out + ".export.tmp/of another").ok());
  {
    const auto other = RunLock::Take(out + ".export.lock", out);
    ASSERT_TRUE(other.ok()) << other.status();
    const absl::Status status = ExportGpt2(checkpoint, 0, out).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
    EXPECT_THAT(
        std::string(status.message()),
        HasSubstr(absl::StrCat("hf: expected no other process at work, process ", getpid())));
    EXPECT_TRUE(fs::exists(out + ".export.tmp/of another"));
    EXPECT_FALSE(fs::exists(out));
  }
  ASSERT_EQ(ExportGpt2(checkpoint, 0, out).status(), absl::OkStatus());
  EXPECT_THAT(*ListDirectory(folder_), ::testing::ElementsAre("checkpoints", "hf", "theirs"));
  // Nor while somebody trains there, by whatever name.
  fs::create_directory_symlink("checkpoints", folder_ + "/linked");
  {
    const auto trains = RunLock::Take(folder_);
    for (const char* to : {"/checkpoints", "/checkpoints/", "/checkpoints/.", "/linked",
                           "/theirs/../checkpoints", "/linked/../checkpoints/"}) {
      EXPECT_EQ(ImportGpt2(folder_ + "/theirs", folder_ + to).status().code(),
                absl::StatusCode::kAlreadyExists)
          << to;
    }
  }
  fs::remove(folder_ + "/linked");
  fs::remove(folder_ + "/run.lock");
  for (const char* to : {"/checkpoints", "/checkpoints/", "/elsewhere"}) {
    EXPECT_EQ(ImportGpt2(folder_ + "/theirs", folder_ + to).status(), absl::OkStatus());
    EXPECT_FALSE(fs::exists(folder_ + "/run.lock"));
    EXPECT_FALSE(fs::exists(folder_ + to + "/run.lock"));
  }
}

TEST_F(ExportTest, ARunIsGivenNoOtherModelAtItsBeginning) {
  const std::string run = folder_ + "/checkpoints";
  ASSERT_EQ(ImportGpt2(folder_ + "/theirs", run).status(), absl::OkStatus());
  ASSERT_EQ(ImportGpt2(folder_ + "/theirs", run).status(), absl::OkStatus());
  fs::copy(run + "/step-000000", run + "/step-000012");
  EXPECT_EQ(ImportGpt2(folder_ + "/theirs", run).status().message(),
            "import: expected a new folder or one with an older import alone, " + run +
                " also has step-000012");
}

TEST_F(ExportTest, OtherKindsOfModelsAreNamedFirst) {
  const std::string at = folder_ + "/theirs/config.json: ";
  const auto error_of = [&](const std::string& text) {
    auto file = FileWriter::Create(folder_ + "/theirs/config.json");
    EXPECT_TRUE(file.ok() && file->Append(text).ok() && file->Close().ok());
    return ImportError();
  };
  EXPECT_EQ(error_of(R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"]})"),
            at + "model_type: expected \"gpt2\", got \"llama\"; a model of another kind cannot be "
                 "imported here");
  EXPECT_EQ(
      error_of(R"({"model_type": "gpt2", "architectures": ["GPT2ForSequenceClassification"]})"),
      at + "architectures: expected GPT2LMHeadModel, GPT2Model, got "
           "GPT2ForSequenceClassification; a model for another task cannot be imported here");
  EXPECT_EQ(error_of(R"({"model_type": "gpt2", "vocab_size": "x"})"),
            at + "vocab_size: expected an integer, got \"x\"");
}

// As DistributedDataParallel, torch.compile and trainers name them.
TEST_F(ExportTest, WrappedNamesAreTheSameModel) {
  const Bytes expected = Read(Import() + "/tensors.safetensors");
  const std::string path = folder_ + "/theirs/model.safetensors";
  const auto file = SafetensorsReader::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  for (const std::string prefix : {"module.", "_orig_mod.", "model.", "module._orig_mod."}) {
    std::vector<TensorEntry> entries;
    for (TensorEntry entry : file->entries()) {
      entry.name = prefix + entry.name;
      entries.push_back(entry);
    }
    // The head does not have the prefix "transformer.", and is tied.
    entries.push_back({prefix + "lm_head.weight", DType::kF32, {256, 8}});
    const auto source = [&](const TensorEntry& entry) {
      const std::string name(absl::StripPrefix(entry.name, prefix));
      return file->Read(name == "lm_head.weight" ? "transformer.wte.weight" : name);
    };
    ASSERT_TRUE(WriteSafetensors(path + ".new", entries, {}, source).ok());
    fs::rename(path + ".new", path);
    EXPECT_EQ(Read(Import() + "/tensors.safetensors"), expected) << prefix;
  }
  EditConfig("\"n_layer\": 2", "\"n_layer\": 3");
  EXPECT_THAT(ImportError(),
              HasSubstr("expected a tensor transformer.h.2.ln_1.weight, got 29 others such as "
                        "module._orig_mod.lm_head.weight, "));
}

TEST_F(ExportTest, ShardsThereAndBackAreBitwise) {
  const std::string imported = Import(), hf = folder_ + "/hf";
  const auto exported = ExportGpt2(imported, 0, hf, {.most_shard_bytes = 9000});
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_THAT(*exported, ::testing::ElementsAre("model-00001-of-00002.safetensors",
                                                "model-00002-of-00002.safetensors", "config.json",
                                                "model.safetensors.index.json"));
  const auto again = ImportGpt2(hf, folder_ + "/again");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Read(again->checkpoint + "/tensors.safetensors"),
            Read(imported + "/tensors.safetensors"));
  fs::remove(hf + "/model-00002-of-00002.safetensors");
  EXPECT_THAT(std::string(ImportGpt2(hf, folder_ + "/none").status().message()),
              HasSubstr("hf/model-00002-of-00002.safetensors: expected a shard"));
}

// A run's byte pairs go out with its model, and come back with it.
TEST_F(ExportTest, BytePairsGoBothWays) {
  const std::string theirs = folder_ + "/theirs", run = folder_ + "/run";
  EXPECT_THAT(ImportGpt2(theirs, run + "/checkpoints")->remarks,
              ::testing::ElementsAre(HasSubstr("theirs has no byte pairs")));
  EditConfig("\"vocab_size\": 256", "\"vocab_size\": 265");
  AddTensor("transformer.wte.weight", HostTensor(DType::kF32, {265, 8}));
  fs::copy("framework/train/testdata/hub/gpt2/tokenizer.json", theirs + "/tokenizer.json");
  const auto imported = ImportGpt2(theirs, run + "/checkpoints");
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_THAT(imported->remarks, ::testing::IsEmpty());
  EXPECT_THAT(*ListDirectory(run),
              ::testing::ElementsAre("checkpoints", "encoder.json", "vocab.bpe"));
  const auto exported = ExportGpt2(imported->checkpoint, 0, folder_ + "/hf");
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_THAT(*exported, ::testing::ElementsAre("model.safetensors", "config.json", "merges.txt",
                                                "tokenizer_config.json", "vocab.json"));
  ASSERT_EQ(ImportGpt2(folder_ + "/hf", folder_ + "/again/checkpoints").status(), absl::OkStatus());
  for (const char* name : {"/encoder.json", "/vocab.bpe"}) {
    EXPECT_EQ(*ReadText(folder_ + "/again" + name, 1 << 20), *ReadText(run + name, 1 << 20));
  }
  // Another import into the same run removes the byte pairs of the model before.
  fs::remove(theirs + "/tokenizer.json");
  ASSERT_EQ(ImportGpt2(theirs, run + "/checkpoints").status(), absl::OkStatus());
  EXPECT_THAT(*ListDirectory(run), ::testing::ElementsAre("checkpoints"));
}

}  // namespace
}  // namespace sluice
