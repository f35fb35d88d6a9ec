// The trainer as people meet it: started as a process, on drawn pictures.

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/data/encode_testing.h"
#include "framework/data/example.h"
#include "framework/data/framed_records.h"
#include "framework/testing/trainer_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// A BMP file of 16 x 16 pixels, whose size does not depend on what they show.
std::string Bmp(uint8_t color) {
  std::string bytes = "BM";
  const auto put = [&bytes](uint32_t value, int size) {
    for (int i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i));
  };
  constexpr int kSide = 16, kPixels = 3 * kSide * kSide, kHeader = 54;
  for (const int value : {kHeader + kPixels, 0, kHeader, 40, kSide, kSide}) put(value, 4);
  for (const int value : {1, 24}) put(value, 2);  // planes, and bits of a pixel
  for (const int value : {0, kPixels, 0, 0, 0, 0}) put(value, 4);
  return bytes + std::string(kPixels, static_cast<char>(color));
}

class TrainTest : public TrainerProcessTest {
 protected:
  TrainTest() : TrainerProcessTest("models/resnet/train") {}

  // A network of seconds.
  static std::vector<std::string> Small() {
    return {"--preset=synthetic", "--depth=18",   "--width=8",  "--image_size=16",
            "--small_images",     "--classes=10", "--batch=20", "--steps=30",
            "--lr=0.05",          "--warmup=3",   "--out=run",  "--eval_every=10",
            "--save_every=20"};
  }

  // Pictures of two classes in a folder, and what a few steps on them are told.
  void WritePictures(const std::string& name) const {
    for (int i = 0; i < 24; ++i) {
      const char* const part = i < 16 ? "/train/" : "/val/";
      const std::string path = name + part + (i % 2 == 0 ? "dark" : "light");
      fs::create_directories(folder() + "/" + path);
      WriteBytes(absl::StrCat(path, "/", i, ".bmp"), Bmp(static_cast<uint8_t>(10 * i)));
    }
  }
  void WriteBytes(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder() + "/" + name, std::ios::binary) << bytes;
  }
  static std::vector<std::string> OnPictures(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {
        "--preset=photographs", "--depth=18",    "--width=4", "--image_size=16", "--small_images",
        "--classes=2",          "--batch=8",     "--steps=2", "--warmup=1",      "--eval_every=1",
        "--measure_peak=false", "--mesh=data=2", "--out=run"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  // What a run would have made in one go it makes in two, to the last bit.
  void ExpectResumedRunIsTheWholeRun(const std::vector<std::string>& arguments) {
    std::vector<std::string> whole = arguments, half = arguments;
    whole.insert(whole.end(), {"--steps=12", "--save_every=6", "--out=whole"});
    half.insert(half.end(), {"--steps=12", "--save_every=6", "--out=half"});
    const EndedProcess first = Run(whole);
    ASSERT_EQ(first.code, 0) << first.error;
    ASSERT_EQ(Run(half).code, 0);
    fs::remove_all(folder() + "/half/checkpoints/step-000012");
    const EndedProcess resumed = Run({"--resume=half"});
    ASSERT_EQ(resumed.code, 0) << resumed.error;
    EXPECT_EQ(Read("whole/checkpoints/step-000012/tensors.safetensors"),
              Read("half/checkpoints/step-000012/tensors.safetensors"));
  }
};

TEST_F(TrainTest, LearnsAndGoesOnOnAnotherMesh) {
  const EndedProcess first = Run(Small());
  ASSERT_EQ(first.code, 0) << first.error;
  for (const char* part : {"ResNet-18 of width 8, 16 x 16 x 3, 10 classes", "drawn at random",
                           "step 30/30", "held-out loss", ", accuracy ", ", top5 ", "images/s"}) {
    EXPECT_THAT(first.out, HasSubstr(part));
  }
  EXPECT_THAT(Read("run/log.jsonl"), HasSubstr("\"val_accuracy\":"));
  // Ten classes that it has seen for a dozen times.
  const std::string& out = first.out;
  EXPECT_GT(std::stod(out.substr(out.rfind(", accuracy ") + 11)), 0.4) << out;

  const EndedProcess more = Run({"--resume=run", "--mesh=data=2 model=2", "--split_stages=2",
                                 "--precision=bf16", "--steps=34", "--check_nan"});
  EXPECT_EQ(more.code, 0) << more.error;
  EXPECT_THAT(more.out, HasSubstr("step 34/34"));

  const EndedProcess deeper = Run({"--resume=run", "--depth=34"});
  EXPECT_EQ(deeper.code, 2);
  EXPECT_EQ(deeper.error,
            "train: --depth: expected 18, as the checkpoint's model has it, got 34\n");
}

TEST_F(TrainTest, AResumedRunIsTheWholeRun) { ExpectResumedRunIsTheWholeRun(Small()); }

// Twelve steps of eight pictures are more than an epoch; each device reads its own four.
TEST_F(TrainTest, ARunOnRecordsGoesOnWhereItWas) {
  std::string bytes;
  for (int i = 0; i < 60; ++i) {
    const std::vector<uint8_t> pixels(20 * 24 * 3, static_cast<uint8_t>(4 * i));
    AppendFramed(Framing::kOfRecord,
                 *ExampleBytes(Framing::kOfRecord,
                               {{"encoded", std::vector<std::string>{EncodeJpeg(pixels, 20, 24)}},
                                {"class/label", std::vector<int32_t>{i % 4}}}),
                 &bytes);
  }
  std::ofstream(folder() + "/part-00000", std::ios::binary) << bytes;
  const std::vector<std::string> arguments = {
      "--preset=photographs", "--data=part-00000", "--depth=18",  "--width=8",
      "--image_size=16",      "--small_images",    "--classes=4", "--batch=8",
      "--mesh=data=2",        "--eval_every=12",   "--warmup=3"};
  ExpectResumedRunIsTheWholeRun(arguments);
  EXPECT_THAT(Read("whole/log.jsonl"), HasSubstr("\"val_accuracy\":"));
  // Another file is not what the run learned from.
  bytes[bytes.size() / 2] ^= 1;
  std::ofstream(folder() + "/part-00000", std::ios::binary) << bytes << "more";
  const EndedProcess other = Run({"--resume=half", "--steps=14"});
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.error, HasSubstr("data that the run has seen, "));
}

// Of the same size, so that only the bytes tell; where the pictures are stored does not count.
TEST_F(TrainTest, AChangedPictureIsRefusedWhenTheRunGoesOn) {
  WritePictures("pictures");
  const EndedProcess first = Run(OnPictures({"--data=pictures"}));
  ASSERT_EQ(first.code, 0) << first.error;
  fs::rename(folder() + "/pictures", folder() + "/moved");
  const EndedProcess moved = Run({"--resume=run", "--data=moved", "--steps=3"});
  ASSERT_EQ(moved.code, 0) << moved.error;
  for (const auto& [picture, of] : {std::pair("/moved/train/dark/6.bmp", "training"),
                                    std::pair("/moved/val/light/19.bmp", "held-out")}) {
    const std::string path = folder() + picture;
    const auto size = fs::file_size(path);
    WriteBytes(picture, Bmp(77));
    ASSERT_EQ(fs::file_size(path), size);
    const EndedProcess other = Run({"--resume=run", "--steps=4"});
    EXPECT_EQ(other.code, 1);
    EXPECT_THAT(other.error,
                ContainsRegex(std::string("expected the ") + of +
                              " data that the run has seen, [0-9]+ bytes of digest [0-9a-f]+, got "
                              "[0-9]+ bytes of digest [0-9a-f]+; --change_data goes on"));
    const int number = of == std::string("training") ? 6 : 19;
    WriteBytes(picture, Bmp(static_cast<uint8_t>(10 * number)));
  }
  EXPECT_EQ(Run({"--resume=run", "--steps=4"}).code, 0);
  WriteBytes("moved/train/dark/6.bmp", Bmp(77));
  const EndedProcess meant = Run({"--resume=run", "--steps=5", "--change_data"});
  EXPECT_EQ(meant.code, 0) << meant.error;
}

// Each rank may have a copy of its own. One that differs in a picture would train other replicas.
TEST_F(TrainTest, RanksCompareTheirPicturesAndNotWhereTheyAre) {
  WritePictures("pictures");
  WritePictures("copy");
  const std::vector<std::vector<std::string>> own = {{"--data=pictures"}, {"--data=copy"}};
  std::vector<pid_t> ranks = StartRanks(2, OnPictures({}), own);
  for (const char* rank : {"0", "1"}) {
    const EndedProcess ended = Wait(ranks[*rank - '0'], rank);
    EXPECT_EQ(ended.code, 0) << ended.error;
    EXPECT_EQ(ended.error, "");
  }
  EXPECT_TRUE(fs::exists(folder() + "/run/checkpoints/step-000002"));
  const std::vector<std::string> more = {"--resume=run", "--steps=3"};
  ranks = StartRanks(2, more, own);
  for (const char* rank : {"0", "1"}) {
    const EndedProcess ended = Wait(ranks[*rank - '0'], rank);
    EXPECT_EQ(ended.code, 0) << ended.error;
  }
  EXPECT_TRUE(fs::exists(folder() + "/run/checkpoints/step-000003"));

  WriteBytes("copy/train/light/7.bmp", Bmp(77));
  ranks = StartRanks(2, OnPictures({"--out=other"}), own);
  for (const char* rank : {"0", "1"}) {
    const EndedProcess ended = Wait(ranks[*rank - '0'], rank);
    EXPECT_EQ(ended.code, 1);
    EXPECT_THAT(
        ended.error,
        ContainsRegex("training: expected .*/pictures with [0-9]+ bytes of digest [0-9a-f]+, as "
                      "on rank 0, got .*/copy with [0-9]+ bytes of digest [0-9a-f]+ on rank 1; all "
                      "ranks need the same data, wherever it is stored"));
  }
  EXPECT_FALSE(fs::exists(folder() + "/other/checkpoints"));
}

// One of eight, which is more than may be damaged of what is learned from.
TEST_F(TrainTest, ADamagedHeldOutPictureIsNamedAndCostsNoRun) {
  WritePictures("pictures");
  const std::string whole = Bmp(5);
  WriteBytes("pictures/val/dark/18.bmp", whole.substr(0, whole.size() / 2));
  const EndedProcess ended = Run(OnPictures({"--data=pictures"}));
  EXPECT_EQ(ended.code, 0) << ended.error;
  EXPECT_THAT(ended.error, HasSubstr("held-out pictures: val/dark/18.bmp is seen as gray: "));
  EXPECT_THAT(ended.error, HasSubstr("; 1 of 8 are damaged so far\n"));
  EXPECT_THAT(ended.out, HasSubstr("held-out loss"));
  EXPECT_TRUE(fs::exists(folder() + "/run/checkpoints/step-000002"));
}

TEST_F(TrainTest, ADataSetThatIsNotThereIsNamedWithItsCommand) {
  const EndedProcess none = Run({"--out=run"});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.error, HasSubstr("bazel run //tools:dataset -- fetch fashion-mnist"));
  EXPECT_EQ(std::count(none.error.begin(), none.error.end(), '\n'), 1) << none.error;
}

TEST_F(TrainTest, ExplainsWithoutData) {
  std::vector<std::string> arguments = Small();
  arguments.insert(arguments.end(), {"--explain", "--mesh=model=2"});
  const EndedProcess explained = Run(arguments);
  EXPECT_EQ(explained.code, 0) << explained.error;
  EXPECT_THAT(explained.out, HasSubstr("classes/weight f32[64,10]  stage 0  model:S1"));
}

}  // namespace
}  // namespace sluice
