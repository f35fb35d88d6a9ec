// The trainer as people meet it: started as a process, on drawn pictures.

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "framework/checkpoint/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

struct Ended {
  int code = -1;
  std::string out, error;
};

class TrainTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }

  Ended Run(std::vector<std::string> arguments) {
    const std::string program = (fs::current_path() / "models/resnet/train").string();
    arguments.insert(arguments.begin(), program);
    const pid_t child = fork();
    if (child == 0) {
      setenv("BUILD_WORKING_DIRECTORY", folder_.c_str(), 1);
      setenv("SLUICE_DATASETS", (folder_ + "/datasets").c_str(), 1);
      if (freopen((folder_ + "/stdout").c_str(), "w", stdout) == nullptr) _exit(99);
      if (freopen((folder_ + "/stderr").c_str(), "w", stderr) == nullptr) _exit(99);
      std::vector<char*> argv;
      for (std::string& argument : arguments) argv.push_back(argument.data());
      argv.push_back(nullptr);
      execv(program.c_str(), argv.data());
      _exit(98);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), Read("stdout"),
            Read("stderr")};
  }

  // A network of seconds.
  static std::vector<std::string> Small() {
    return {"--preset=synthetic", "--depth=18",   "--width=8",  "--image_size=16",
            "--small_images",     "--classes=10", "--batch=20", "--steps=30",
            "--lr=0.05",          "--warmup=3",   "--out=run",  "--eval_every=10",
            "--save_every=20"};
  }

  std::string Read(const std::string& name) {
    absl::StatusOr<std::string> text = ReadText(folder_ + "/" + name, 1 << 24);
    return text.ok() ? *text : std::string(text.status().message());
  }

  std::string folder_;
};

TEST_F(TrainTest, LearnsAndGoesOnOnAnotherMesh) {
  const Ended first = Run(Small());
  ASSERT_EQ(first.code, 0) << first.error;
  for (const char* part : {"ResNet-18 of width 8, 16 x 16 x 3, 10 classes", "drawn at random",
                           "step 30/30", "held-out loss", ", accuracy ", ", top5 ", "images/s"}) {
    EXPECT_THAT(first.out, HasSubstr(part));
  }
  EXPECT_THAT(Read("run/log.jsonl"), HasSubstr("\"val_accuracy\":"));
  // Ten classes that it has seen for a dozen times.
  const std::string& out = first.out;
  EXPECT_GT(std::stod(out.substr(out.rfind(", accuracy ") + 11)), 0.4) << out;

  const Ended more = Run({"--resume=run", "--mesh=data=2 model=2", "--split_stages=2",
                          "--precision=bf16", "--steps=34", "--check_nan"});
  EXPECT_EQ(more.code, 0) << more.error;
  EXPECT_THAT(more.out, HasSubstr("step 34/34"));

  const Ended deeper = Run({"--resume=run", "--depth=34"});
  EXPECT_EQ(deeper.code, 2);
  EXPECT_EQ(deeper.error,
            "train: --depth: expected 18, as the checkpoint's model has it, got 34\n");
}

// What a run would have made in one go it makes in two, to the last bit.
TEST_F(TrainTest, AResumedRunIsTheWholeRun) {
  std::vector<std::string> whole = Small(), half = Small();
  whole.insert(whole.end(), {"--steps=12", "--save_every=6", "--out=whole"});
  half.insert(half.end(), {"--steps=12", "--save_every=6", "--out=half"});
  ASSERT_EQ(Run(whole).code, 0);
  ASSERT_EQ(Run(half).code, 0);
  fs::remove_all(folder_ + "/half/checkpoints/step-000012");
  const Ended resumed = Run({"--resume=half"});
  ASSERT_EQ(resumed.code, 0) << resumed.error;
  EXPECT_EQ(Read("whole/checkpoints/step-000012/tensors.safetensors"),
            Read("half/checkpoints/step-000012/tensors.safetensors"));
}

TEST_F(TrainTest, ADataSetThatIsNotThereIsNamedWithItsCommand) {
  const Ended none = Run({"--out=run"});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.error, HasSubstr("bazel run //tools:dataset -- fetch fashion-mnist"));
  EXPECT_EQ(std::count(none.error.begin(), none.error.end(), '\n'), 1) << none.error;
}

TEST_F(TrainTest, ExplainsWithoutData) {
  std::vector<std::string> arguments = Small();
  arguments.insert(arguments.end(), {"--explain", "--mesh=model=2"});
  const Ended explained = Run(arguments);
  EXPECT_EQ(explained.code, 0) << explained.error;
  EXPECT_THAT(explained.out, HasSubstr("classes/weight f32[64,10]  stage 0  model:S1"));
}

}  // namespace
}  // namespace sluice
