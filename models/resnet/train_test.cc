// The trainer as people meet it: started as a process, on drawn pictures.

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "framework/data/encode_testing.h"
#include "framework/data/example.h"
#include "framework/data/framed_records.h"
#include "framework/testing/trainer_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

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
