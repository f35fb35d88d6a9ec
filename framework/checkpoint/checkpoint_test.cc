#include "framework/checkpoint/checkpoint.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string FreshDirectory(const std::string& name) {
  const std::string dir = testing::TempDir() + "/" + name;
  EXPECT_TRUE(RemoveTree(dir).ok());
  return dir;
}

const std::vector<TensorEntry>& Entries() {
  static const auto& entries = *new std::vector<TensorEntry>{
      {"h0/weight", DType::kF32, Shape{2, 3}}, {"h0/weight/m", DType::kF32, Shape{2, 3}}};
  return entries;
}

std::function<HostTensor(const TensorEntry&)> Values(float base) {
  return [base](const TensorEntry& entry) {
    HostTensor tensor(entry.dtype, entry.shape);
    for (int i = 0; i < 6; ++i) tensor.data<float>()[i] = base + i;
    return tensor;
  };
}

CheckpointMeta Meta(int64_t step) {
  return {step,
          0xfedcba9876543210u,
          step * 8,
          {{"mesh", "data=2"}, {"lr", "0.001"}},
          {{"training", {1234, "00ff"}}, {"held_out", {0, "7"}}}};
}

void Overwrite(const std::string& path, const std::string& bytes) {
  ASSERT_TRUE(std::ofstream(path, std::ios::binary) << bytes);
}

TEST(CheckpointTest, LoadsWhatWasSaved) {
  const std::string dir = FreshDirectory("loads");
  const auto path = SaveCheckpoint(dir, Meta(123), Entries(), Values(1));
  ASSERT_EQ(path.status(), absl::OkStatus());
  EXPECT_EQ(*path, dir + "/step-000123");
  EXPECT_THAT(*ListDirectory(dir), ElementsAre("step-000123"));
  const auto checkpoint = Checkpoint::Load(*path);
  ASSERT_EQ(checkpoint.status(), absl::OkStatus());
  EXPECT_EQ(checkpoint->meta().step, 123);
  EXPECT_EQ(checkpoint->meta().seed, 0xfedcba9876543210u);
  EXPECT_EQ(checkpoint->meta().samples, 984);
  EXPECT_EQ(checkpoint->meta().options, Meta(0).options);
  EXPECT_EQ(checkpoint->meta().data, Meta(0).data);
  EXPECT_EQ(checkpoint->Read("h0/weight")->data<float>()[5], 6.0f);
  EXPECT_EQ(checkpoint->Read("h1").status().code(), absl::StatusCode::kNotFound);
}

TEST(CheckpointTest, SavesAgainOverTheSameStep) {
  const std::string dir = FreshDirectory("again");
  ASSERT_TRUE(SaveCheckpoint(dir, Meta(1), Entries(), Values(1)).ok());
  ASSERT_TRUE(SaveCheckpoint(dir, Meta(1), Entries(), Values(50)).ok());
  EXPECT_THAT(*ListDirectory(dir), ElementsAre("step-000001"));
  EXPECT_EQ(Checkpoint::Load(dir + "/step-000001")->Read("h0/weight")->data<float>()[0], 50.0f);
}

TEST(CheckpointTest, AFailedSaveLeavesTheOldOnesAndNothingElse) {
  const std::string dir = FreshDirectory("failed");
  ASSERT_TRUE(SaveCheckpoint(dir, Meta(1), Entries(), Values(1)).ok());
  const auto failing = [](const TensorEntry& entry) -> absl::StatusOr<HostTensor> {
    if (entry.name == "h0/weight") return Values(2)(entry);
    return absl::InternalError("torn");
  };
  EXPECT_EQ(SaveCheckpoint(dir, Meta(2), Entries(), failing).status().message(), "torn");
  EXPECT_EQ(SaveCheckpoint(dir, Meta(1), Entries(), failing).status().message(), "torn");
  EXPECT_THAT(*ListDirectory(dir), ElementsAre("step-000001"));
  EXPECT_TRUE(Checkpoint::Load(dir + "/step-000001")->Read("h0/weight/m").ok());
}

TEST(CheckpointTest, FindsTheLatestByStepAndPrunesTheOldest) {
  const std::string dir = FreshDirectory("latest");
  EXPECT_EQ(LatestCheckpoint(dir).status().code(), absl::StatusCode::kNotFound);
  for (const int64_t step : {999'999, 1'000'000, 5, 70}) {
    ASSERT_TRUE(SaveCheckpoint(dir, Meta(step), Entries(), Values(1)).ok());
  }
  ASSERT_TRUE(CreateDirectories(dir + "/step-2000000.tmp").ok());
  ASSERT_TRUE(CreateDirectories(dir + "/notes.tmp").ok());
  EXPECT_EQ(*LatestCheckpoint(dir), dir + "/step-1000000");
  ASSERT_TRUE(PruneCheckpoints(dir, 1'000'000, 2).ok());
  EXPECT_THAT(*ListDirectory(dir), ElementsAre("notes.tmp", "step-1000000", "step-999999"));
  ASSERT_TRUE(PruneCheckpoints(dir, 1'000'000, 0).ok());
  EXPECT_EQ(*LatestCheckpoint(dir), dir + "/step-1000000");
}

// What is not finite is never saved, so that it takes no good checkpoint's place.
TEST(CheckpointTest, AValueThatIsNotFiniteIsNamedAndNotSaved) {
  const std::string dir = FreshDirectory("finite");
  const std::vector<TensorEntry> entries = {{"mean", DType::kF32, {3}},
                                            {"count", DType::kI32, {2}},
                                            {"norm/variance", DType::kF32, {300, 1000}}};
  // The whole of a tensor, but for one element; -1 leaves all as they are. All bits of a whole
  // number may be ones.
  const auto values = [](const std::string& name, int64_t at, float value) {
    return [=](const TensorEntry& entry) -> absl::StatusOr<TensorValue> {
      HostTensor tensor(entry.dtype, entry.shape);
      if (entry.dtype == DType::kI32) std::ranges::fill(tensor.bytes, std::byte{0xff});
      if (entry.name == name && at >= 0) tensor.data<float>()[at] = value;
      return TensorValue(std::move(tensor));
    };
  };
  ASSERT_TRUE(SaveCheckpoint(dir, Meta(1), entries, values("", -1, 0)).ok());
  const float infinity = std::numeric_limits<float>::infinity();
  struct Bad {
    const char* name;
    int64_t at;
    float value;
    const char* message;
  };
  for (const Bad& bad :
       {Bad{"mean", 2, -infinity, "tensor mean: expected finite values, got -inf at [2]"},
        Bad{"norm/variance", 299'999, infinity,
            "tensor norm/variance: expected finite values, got inf at [299,999]"},
        Bad{"norm/variance", 70'005, std::nanf(""),
            "tensor norm/variance: expected finite values, got nan at [70,5]"}}) {
    for (const int64_t step : {1, 2}) {
      const absl::Status status =
          SaveCheckpoint(dir, Meta(step), entries, values(bad.name, bad.at, bad.value)).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
      EXPECT_EQ(status.message(), bad.message);
    }
    EXPECT_THAT(*ListDirectory(dir), ElementsAre("step-000001"));
    EXPECT_EQ(Checkpoint::Load(dir + "/step-000001")->Verify(), absl::OkStatus());
  }
}

TEST(CheckpointTest, TheBestStays) {
  const std::string dir = FreshDirectory("best");
  const std::map<int64_t, double> losses = {{1, 3.5}, {2, 1.25}, {3, 2}, {4, 1.25}, {5, 1.5}};
  for (const auto& [step, loss] : losses) {
    CheckpointMeta meta = Meta(step);
    meta.evaluation = {{"loss", loss}, {"accuracy", 1 / loss}};
    ASSERT_TRUE(SaveCheckpoint(dir, meta, Entries(), Values(1)).ok());
    EXPECT_EQ(Checkpoint::Load(absl::StrCat(dir, "/step-00000", step))->meta().evaluation,
              meta.evaluation);
  }
  ASSERT_TRUE(SaveCheckpoint(dir, Meta(6), Entries(), Values(1)).ok());  // not evaluated
  EXPECT_EQ(*BestCheckpoint(dir, 6, {"loss"}), dir + "/step-000002");
  EXPECT_EQ(*BestCheckpoint(dir, 1, {"loss"}), dir + "/step-000001");
  EXPECT_EQ(*BestCheckpoint(dir, 6, {"accuracy", true}), dir + "/step-000002");
  EXPECT_EQ(*BestCheckpoint(dir, 6, {"loss", true}), dir + "/step-000001");
  EXPECT_TRUE(absl::IsNotFound(BestCheckpoint(dir, 6, {"auc"}).status()));
  ASSERT_TRUE(PruneCheckpoints(dir, 6, 2, {"loss"}).ok());
  EXPECT_THAT(*ListDirectory(dir), ElementsAre("step-000002", "step-000005", "step-000006"));
  ASSERT_TRUE(PruneCheckpoints(dir, 6, 1).ok());
  EXPECT_THAT(*ListDirectory(dir), ElementsAre("step-000006"));
}

// As where a run begins in a folder that holds checkpoints of an older one.
TEST(CheckpointTest, PruningLeavesWhatWasJustWrittenAndAllOfHigherSteps) {
  const std::string dir = FreshDirectory("higher");
  for (const int64_t step : {1, 2, 3, 300, 400}) {
    ASSERT_TRUE(SaveCheckpoint(dir, Meta(step), Entries(), Values(1)).ok());
  }
  ASSERT_TRUE(PruneCheckpoints(dir, 3, 2).ok());
  EXPECT_THAT(*ListDirectory(dir),
              ElementsAre("step-000002", "step-000003", "step-000300", "step-000400"));
  ASSERT_TRUE(PruneCheckpoints(dir, 3, 1).ok());
  EXPECT_THAT(*ListDirectory(dir), ElementsAre("step-000003", "step-000300", "step-000400"));
}

bool IsBlank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

TEST(CheckpointTest, TellsEveryFlippedBitAndEveryCut) {
  const std::string dir = FreshDirectory("damage");
  const std::string path = *SaveCheckpoint(dir, Meta(7), Entries(), Values(1));
  const auto loads = [&] {
    const auto checkpoint = Checkpoint::Load(path);
    return checkpoint.ok() ? checkpoint->Verify() : checkpoint.status();
  };
  ASSERT_EQ(loads(), absl::OkStatus());
  int damages = 0;
  const auto told = [&] {
    ++damages;
    const absl::Status status = loads();
    return !status.ok() && absl::StrContains(status.message(), path);
  };
  for (const char* name : {"tensors.safetensors", "manifest.json"}) {
    const std::string file = path + "/" + name;
    const std::string good = *ReadText(file, 1 << 20);
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    const auto put = [&](size_t i, char byte) {
      bytes.seekp(static_cast<std::streamoff>(i)).put(byte).flush();
    };
    for (size_t i = 0; i < 8 * good.size(); ++i) {
      const char bad = static_cast<char>(good[i / 8] ^ 1 << i % 8);
      if (IsBlank(bad) && IsBlank(good[i / 8])) continue;  // to JSON they are the same
      put(i / 8, bad);
      EXPECT_TRUE(told()) << name << " bit " << i;
      put(i / 8, good[i / 8]);
    }
    EXPECT_EQ(loads(), absl::OkStatus());
    for (size_t n = good.find_last_not_of('\n') + 1; n-- > 0;) {
      std::filesystem::resize_file(file, n);
      EXPECT_TRUE(told()) << name << " cut to " << n;
    }
    Overwrite(file, good);
  }
  EXPECT_EQ(loads(), absl::OkStatus());
  EXPECT_GT(damages, 4000);
  RecordProperty("damages", damages);
}

TEST(CheckpointTest, TheLatestGoodOneIsBelowTheDamaged) {
  const std::string dir = FreshDirectory("good");
  std::vector<DamagedCheckpoint> damaged;
  EXPECT_EQ(LatestGoodCheckpoint(dir, &damaged).status().code(), absl::StatusCode::kNotFound);
  for (const int64_t step : {1, 2, 3}) {
    ASSERT_TRUE(SaveCheckpoint(dir, Meta(step), Entries(), Values(1)).ok());
  }
  EXPECT_EQ(*LatestGoodCheckpoint(dir, &damaged), dir + "/step-000003");
  EXPECT_TRUE(damaged.empty());
  const auto damage = [&](const std::string& file) {
    std::string bytes = *ReadText(dir + "/" + file, 1 << 20);
    bytes.back() ^= 1;
    Overwrite(dir + "/" + file, bytes);
  };
  damage("step-000003/tensors.safetensors");
  ASSERT_TRUE(RemoveTree(dir + "/step-000002/manifest.json").ok());
  EXPECT_EQ(*LatestGoodCheckpoint(dir, &damaged), dir + "/step-000001");
  ASSERT_EQ(damaged.size(), 2u);
  EXPECT_EQ(damaged[0].path, dir + "/step-000003");
  EXPECT_THAT(std::string(damaged[0].status.message()), HasSubstr("h0/weight/m is damaged"));
  EXPECT_THAT(std::string(damaged[1].status.message()), HasSubstr("manifest.json: cannot open"));
  damage("step-000001/manifest.json");
  EXPECT_THAT(std::string(LatestGoodCheckpoint(dir, &damaged).status().message()),
              HasSubstr("step-000003: tensor h0/weight/m is damaged"));
  EXPECT_EQ(damaged.size(), 3u);
  // Set aside, they are no checkpoints, and pruning leaves them alone.
  for (const auto& one : damaged) EXPECT_EQ(SetCheckpointAside(one.path), absl::OkStatus());
  EXPECT_EQ(LatestCheckpoint(dir).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(PruneCheckpoints(dir, 3, 1).ok());
  EXPECT_THAT(*ListDirectory(dir),
              ElementsAre("step-000001.damaged", "step-000002.damaged", "step-000003.damaged"));
}

// What could not be read may be whole.
TEST(CheckpointTest, AnErrorOfReadingIsNoDamage) {
  const std::string dir = FreshDirectory("unread");
  for (const int64_t step : {1, 2, 3}) {
    ASSERT_TRUE(SaveCheckpoint(dir, Meta(step), Entries(), Values(1)).ok());
  }
  Overwrite(dir + "/step-000003/manifest.json", "{}");
  const std::string loop = dir + "/step-000002/tensors.safetensors";
  std::filesystem::remove(loop);
  std::filesystem::create_symlink("tensors.safetensors", loop);  // cannot be followed, ELOOP
  std::vector<DamagedCheckpoint> damaged;
  const absl::Status status = LatestGoodCheckpoint(dir, &damaged).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr(loop + ": cannot open: "));
  EXPECT_FALSE(absl::IsDataLoss(status) || absl::IsNotFound(status)) << status;
  EXPECT_TRUE(damaged.empty());
}

// Opening one to read waits for someone who writes; here nobody does.
TEST(CheckpointTest, PipesAreRefusedByName) {
  const std::string dir = FreshDirectory("pipes");
  const std::string path = *SaveCheckpoint(dir, Meta(1), Entries(), Values(1));
  for (const char* name : {"/tensors.safetensors", "/manifest.json"}) {
    std::filesystem::remove(path + name);
    ASSERT_EQ(mkfifo((path + name).c_str(), 0644), 0);
    EXPECT_EQ(Checkpoint::Load(path).status(),
              absl::InvalidArgumentError(path + name + ": expected a file, got a pipe or device"));
  }
}

TEST(CheckpointTest, ErrorsSayWhatExpectedAndGot) {
  const std::string dir = FreshDirectory("errors");
  const std::string path = *SaveCheckpoint(dir, Meta(7), Entries(), Values(1));
  const std::string manifest = *ReadText(path + "/manifest.json", 1 << 20);
  Overwrite(path + "/manifest.json",
            absl::StrReplaceAll(manifest, {{"\"step\": 7", "\"step\": 8"}}));
  EXPECT_THAT(
      std::string(Checkpoint::Load(path).status().message()),
      testing::AllOf(HasSubstr("manifest.json: damaged: expected digest"), HasSubstr(", got \"")));
  Overwrite(path + "/manifest.json", manifest);
  std::string tensors = *ReadText(path + "/tensors.safetensors", 1 << 20);
  tensors.back() ^= 1;
  Overwrite(path + "/tensors.safetensors", tensors);
  EXPECT_THAT(std::string(Checkpoint::Load(path)->Read("h0/weight/m").status().message()),
              HasSubstr("tensor h0/weight/m is damaged: expected digest"));
  EXPECT_TRUE(Checkpoint::Load(path)->Read("h0/weight").ok());
  EXPECT_THAT(std::string(Checkpoint::Load(dir + "/step-000008").status().message()),
              HasSubstr("step-000008/manifest.json: cannot open"));
}

TEST(CheckpointTest, RefusesAManifestThatNestsAMillionDeep) {
  const std::string deep = "{\"a\":" + std::string(1000000, '[') + std::string(1000000, ']') + "}";
  EXPECT_EQ(ParseManifest(deep, "manifest").status().code(), absl::StatusCode::kDataLoss);
}

// As every revision before data was recorded wrote them.
TEST(CheckpointTest, ReadsAManifestWithoutData) {
  CheckpointMeta meta = Meta(7);
  meta.data.clear();
  const std::string text = PrintManifest({meta, {}, {}});
  EXPECT_THAT(text, Not(HasSubstr("data\":")));
  const auto manifest = ParseManifest(text, "manifest");
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_TRUE(manifest->meta.data.empty());
}

TEST(CheckpointTest, RefusesDataThatIsNoneThoughTheSealIsWhole) {
  const std::string good = PrintManifest({Meta(7), {}, {}});
  for (const char* bytes : {"-1", "\"1234\"", "null", "1e3"}) {
    const std::string text =
        absl::StrReplaceAll(good, {{"\"bytes\": 1234", absl::StrCat("\"bytes\": ", bytes)}});
    ASSERT_NE(text, good);
    EXPECT_THAT(std::string(ParseManifest(*SealManifest(text, "m"), "m").status().message()),
                HasSubstr("tensors and perhaps data"))
        << bytes;
  }
}

TEST(CheckpointTest, RefusesNumbersThatDoNotFitThoughTheSealIsWhole) {
  const std::string good = PrintManifest({Meta(7), {}, {}});
  ASSERT_TRUE(ParseManifest(good, "manifest").ok());
  for (const char* step : {"9223372036854775808", "-1", "7.5", "\"7\""}) {
    const std::string text =
        absl::StrReplaceAll(good, {{"\"step\": 7", absl::StrCat("\"step\": ", step)}});
    const absl::StatusOr<std::string> sealed = SealManifest(text, "manifest");
    ASSERT_TRUE(sealed.ok());
    EXPECT_THAT(std::string(ParseManifest(*sealed, "manifest").status().message()),
                HasSubstr("expected step, seed, samples"))
        << step;
  }
}

}  // namespace
}  // namespace sluice
