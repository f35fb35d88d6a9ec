// A GPT-2 of 50257 tokens, unpadded, which no number of devices divides: imported it trains on and
// writes, on one device and split.
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/checkpoint/safetensors.h"
#include "framework/data/token_file.h"
#include "framework/tensor/random.h"
#include "framework/testing/trainer_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/gpt/gpt2_layout.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kVocabulary = 50257, kWidth = 8, kLength = 16;

class ImportTest : public TrainerProcessTest {
 protected:
  ImportTest() : TrainerProcessTest("models/gpt/train") {}

  void SetUp() override {
    TrainerProcessTest::SetUp();
    std::filesystem::create_directories(folder() + "/hf");
    Write("hf/config.json", absl::StrCat("{\"model_type\": \"gpt2\", \"vocab_size\": ", kVocabulary,
                                         ", \"n_positions\": ", kLength, ", \"n_embd\": ", kWidth,
                                         ", \"n_layer\": 2, \"n_head\": 2}"));
    std::vector<TensorEntry> entries;
    const auto add = [&](const std::string& name, const Shape& shape) {
      entries.push_back({name, DType::kF32, shape});
    };
    const auto add_pair = [&](const std::string& name, int64_t in, int64_t out) {
      add(name + ".weight", in > 0 ? Shape{in, out} : Shape{out});
      add(name + ".bias", {out});
    };
    add("wte.weight", {kVocabulary, kWidth});
    add("wpe.weight", {kLength, kWidth});
    for (const std::string layer : {"h.0.", "h.1."}) {
      add_pair(layer + "ln_1", 0, kWidth);
      add_pair(layer + "attn.c_attn", kWidth, 3 * kWidth);
      add_pair(layer + "attn.c_proj", kWidth, kWidth);
      add_pair(layer + "ln_2", 0, kWidth);
      add_pair(layer + "mlp.c_fc", kWidth, 4 * kWidth);
      add_pair(layer + "mlp.c_proj", 4 * kWidth, kWidth);
    }
    add_pair("ln_f", 0, kWidth);
    const auto draw = [](const TensorEntry& entry) -> absl::StatusOr<HostTensor> {
      HostTensor value(entry.dtype, entry.shape);
      for (int64_t i = 0; i < entry.shape.NumElements(); ++i) {
        value.data<float>()[i] =
            static_cast<float>(0.3 * RandomNormal(1, RandomKey(entry.name), i));
      }
      return value;
    };
    const absl::Status written =
        WriteSafetensors(folder() + "/hf/model.safetensors", entries, {}, draw);
    ASSERT_TRUE(written.ok()) << written;
    TokenFile tokens;
    // The first, the last, and those around the place where two devices split the vocabulary.
    for (int64_t i = 0; i < 1000; ++i) {
      for (const int32_t token : {0, 50256, 25128, 25129}) tokens.tokens.push_back(token);
    }
    ASSERT_TRUE(WriteTokenFile(folder() + "/tokens.bin", tokens, kVocabulary).ok());
  }

  void Import(const std::string& run) {
    const auto imported =
        ImportGpt2(folder() + "/hf", absl::StrCat(folder(), "/", run, "/checkpoints"));
    ASSERT_TRUE(imported.ok()) << imported.status();
  }
  double LossOf(const std::string& run, int step) {
    const std::string log = Read(run + "/log.jsonl");
    const std::string before = absl::StrCat("{\"step\":", step, ",\"loss\":");
    const size_t at = log.find(before);
    if (at == std::string::npos) return -1;
    double loss = -1;
    const size_t begin = at + before.size();
    EXPECT_TRUE(absl::SimpleAtod(log.substr(begin, log.find(',', begin) - begin), &loss));
    return loss;
  }
  // What stands between the lines of a sample.
  static std::string Written(const EndedProcess& ended) {
    const size_t begin = ended.out.find("---\n"), end = ended.out.rfind("\n---");
    return begin == std::string::npos ? ended.error : ended.out.substr(begin + 4, end - begin - 4);
  }
};

TEST_F(ImportTest, FiftyThousandTokensTrainOnAndAreWritten) {
  std::vector<double> losses;
  std::vector<std::string> texts;
  for (const std::string mesh : {"data=1", "model=2", "data=2 model=2"}) {
    const std::string run = absl::StrCat("run", losses.size());
    Import(run);
    const EndedProcess untrained =
        Run({"--resume=" + run, "--sample", "--mesh=" + mesh, "--prompt=50256 11",
             "--temperature=0", "--sample_length=24"});  // longer than the model
    ASSERT_EQ(untrained.code, 0) << untrained.error;
    EXPECT_THAT(untrained.out, HasSubstr("over 50257 tokens without a text"));
    texts.push_back(Written(untrained));
    EXPECT_THAT(texts.back(), ::testing::StartsWith("50256 11 "));
    const EndedProcess trained =
        Run({"--resume=" + run, "--data=tokens.bin", "--mesh=" + mesh, "--steps=3", "--batch=4",
             "--lr=0.01", "--warmup=1", "--dropout=0", "--sample_length=5"});
    ASSERT_EQ(trained.code, 0) << trained.error;
    EXPECT_EQ(LossOf(run, 4), -1);
    losses.push_back(LossOf(run, 3));
    EXPECT_LT(losses.back(), LossOf(run, 1));
    EXPECT_NEAR(losses.back(), losses[0], 1e-4) << mesh;
    EXPECT_EQ(texts.back(), texts[0]) << mesh;
  }
  EXPECT_GT(losses[0], 8);  // nearly ln 50257, of few steps
}

}  // namespace
}  // namespace sluice
