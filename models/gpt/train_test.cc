// The trainer as people meet it: started as a process, from a folder of its own.

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "framework/checkpoint/file.h"
#include "framework/testing/trainer_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class TrainTest : public TrainerProcessTest {
 protected:
  TrainTest() : TrainerProcessTest("models/gpt/train") {}

  void SetUp() override {
    TrainerProcessTest::SetUp();
    fs::copy(fs::current_path() / "models/gpt/testdata/fixed.txt", folder() + "/text.txt");
  }

  // A model of seconds, on `arguments` besides.
  EndedProcess RunSmall(std::vector<std::string> arguments) {
    const std::vector<std::string> small = {
        "--preset=tiny",   "--layers=2",           "--hidden=16",
        "--heads=4",       "--sequence_length=16", "--steps=6",
        "--data=text.txt", "--sample_length=4",    "--out=run",
        "--eval_every=3",  "--save_every=4"};
    arguments.insert(arguments.begin(), small.begin(), small.end());
    return Run(arguments);
  }
};

TEST_F(TrainTest, TrainsResumesOnAnotherMeshAndWrites) {
  const EndedProcess first = RunSmall({});
  ASSERT_EQ(first.code, 0) << first.error;
  for (const char* shard :
       {"bigram model", "held-out loss", "step 6/6", "checkpoint run/checkpoints/",
        "log        run/log.jsonl", "step 6\n", "digest"}) {
    EXPECT_THAT(first.out, HasSubstr(shard));
  }
  const std::string log = Read("run/log.jsonl");
  for (const char* shard :
       {"{\"step\":0,\"val_subset_loss\":5.5", "\"corpus\":\"", "{\"step\":1,\"loss\":5.5",
        "{\"step\":3,\"val_subset_loss\":", "{\"step\":6,\"loss\":", "\"grad_norm\":", "\"lr\":",
        "\"tokens_per_second\":", "{\"step\":6,\"val_loss\":"}) {
    EXPECT_THAT(log, HasSubstr(shard));
  }
  EXPECT_THAT(Read("run/options.txt"), HasSubstr("--hidden=16\n"));

  const EndedProcess more = Run({"--resume=run", "--mesh=model=2 pipe=2", "--micro_batches=2",
                                 "--steps=8", "--sample_length=0"});
  ASSERT_EQ(more.code, 0) << more.error;
  EXPECT_THAT(Read("run/log.jsonl"), HasSubstr(log.substr(0, log.find("{\"step\":6,\"val"))));
  EXPECT_THAT(Read("run/log.jsonl"), HasSubstr("{\"step\":8,\"val_loss\":"));

  const EndedProcess reshaped = Run({"--resume=run", "--heads=2"});
  EXPECT_EQ(reshaped.code, 2);
  EXPECT_EQ(reshaped.error,
            "train: --heads: expected 4, as the checkpoint's model has it, got 2\n");

  const EndedProcess written = Run({"--resume=run", "--sample", "--prompt=the ", "--temperature=0",
                                    "--sample_length=3", "--mesh=data=1"});
  EXPECT_EQ(written.code, 0) << written.error;
  EXPECT_THAT(written.out, HasSubstr("---\nthe "));
}

// Text as byte pairs, which the run keeps: it goes on and writes without being told where they are.
TEST_F(TrainTest, ARunOfBytePairsKeepsThem) {
  fs::create_directories(folder() + "/pairs");
  for (const char* name : {"/encoder.json", "/vocab.bpe"}) {
    fs::copy(std::string(fs::current_path() / "framework/data/testdata/byte_pair") + name,
             folder() + "/pairs" + name);
  }
  const EndedProcess first = RunSmall({"--tokenizer=pairs", "--vocabulary=50257", "--mesh=model=2",
                                       "--prompt=the ", "--temperature=0"});
  ASSERT_EQ(first.code, 0) << first.error;
  for (const char* part : {"over 2257 byte pairs", "tokenizer  2257 byte pairs, of pairs",
                           "nats a token", "bits_per_byte ", "---\nthe "}) {
    EXPECT_THAT(first.out, HasSubstr(part));
  }
  EXPECT_THAT(Read("run/log.jsonl"), HasSubstr("\"val_bits_per_byte\":"));
  EXPECT_THAT(Read("run/options.txt"), HasSubstr("--vocabulary=50257\n"));
  EXPECT_EQ(Read("run/vocab.bpe"), Read("pairs/vocab.bpe"));
  fs::remove_all(folder() + "/pairs");
  const EndedProcess more = Run({"--resume=run", "--steps=7", "--mesh=data=1"});
  EXPECT_EQ(more.code, 0) << more.error;
  const EndedProcess written = Run({"--resume=run", "--sample", "--prompt=the ", "--temperature=0",
                                    "--sample_length=20", "--mesh=data=1"});
  EXPECT_EQ(written.code, 0) << written.error;
  EXPECT_THAT(written.out, HasSubstr("---\nthe "));
  EXPECT_EQ(Run({"--resume=run", "--vocabulary=256"}).error,
            "train: --vocabulary: expected 50257, as the checkpoint's model has it, got 256\n");
}

// Dropout, sample order and schedule go on where the checkpoint was taken: not a bit differs.
TEST_F(TrainTest, ResumedRunIsTheWholeRun) {
  ASSERT_EQ(RunSmall({}).code, 0);
  const EndedProcess resumed = Run({"--resume=run/checkpoints/step-000004", "--out=second"});
  ASSERT_EQ(resumed.code, 0) << resumed.error;
  for (const char* step : {"{\"step\":5,\"loss\"", "{\"step\":6,\"loss\""}) {
    auto line = [&](const std::string& log) {
      const size_t begin = log.find(step);
      return begin == std::string::npos ? "none"
                                        : log.substr(begin, log.find(",\"tok", begin) - begin);
    };
    EXPECT_THAT(line(Read("run/log.jsonl")), HasSubstr("loss"));
    EXPECT_EQ(line(Read("second/log.jsonl")), line(Read("run/log.jsonl")));
  }
  EXPECT_EQ(Read("second/checkpoints/step-000006/tensors.safetensors"),
            Read("run/checkpoints/step-000006/tensors.safetensors"));
}

// Nor does a later run learn what an earlier one wrote.
TEST_F(TrainTest, ARunNeverLearnsItsOwnFolderNorGoesOnWithOtherData) {
  fs::create_directories(folder() + "/texts");
  fs::rename(folder() + "/text.txt", folder() + "/texts/text.txt");
  ASSERT_EQ(RunSmall({"--data=texts", "--out=texts/run"}).code, 0);
  const EndedProcess resumed = Run({"--resume=texts/run", "--steps=7", "--sample_length=0"});
  EXPECT_EQ(resumed.code, 0) << resumed.error;
  const EndedProcess own = Run({"--resume=texts/run", "--data=texts/run"});
  EXPECT_EQ(own.code, 2);
  EXPECT_THAT(own.error, HasSubstr("texts/run is the folder of a run\n"));
  const std::string options = Read("texts/run/options.txt"), log = Read("texts/run/log.jsonl");
  Write("texts/another.txt", "more to learn");
  const EndedProcess other = Run({"--resume=texts/run", "--steps=8"});
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.error, HasSubstr("data that the run has seen, "));
  EXPECT_THAT(other.error, HasSubstr(" bytes of digest "));
  EXPECT_THAT(other.error, HasSubstr(", got "));
  EXPECT_EQ(Read("texts/run/options.txt"), options);
  EXPECT_EQ(Read("texts/run/log.jsonl"), log);
}

TEST_F(TrainTest, InterruptSavesAndStops) {
  const pid_t child = Start({"--preset=tiny", "--layers=1", "--hidden=16", "--heads=2",
                             "--data=text.txt", "--out=run", "--steps=1000000", "--eval_every=0"});
  for (int i = 0; i < 600 && Read("run/log.jsonl").find("\"step\":3,") == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  kill(child, SIGINT);
  const EndedProcess ended = Wait(child);
  EXPECT_EQ(ended.code, 0) << ended.error;
  EXPECT_THAT(ended.out, HasSubstr("stopped; --resume=run goes on"));
  EXPECT_EQ(ListDirectory(folder() + "/run/checkpoints")->size(), 1u);
}

TEST_F(TrainTest, ASecondProcessIsToldWhoHasTheRun) {
  const pid_t child =
      Start({"--preset=tiny", "--layers=1", "--hidden=16", "--heads=2", "--data=text.txt",
             "--out=run", "--steps=1000000", "--eval_every=0", "--save_every=2", "--keep=1000000"});
  for (int i = 0; i < 600 && !fs::exists(folder() + "/run/checkpoints/step-000002"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const EndedProcess second = Run({"--resume=run", "--sample_length=0"});
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(second.error, HasSubstr("run: expected no other process at work, process " +
                                      std::to_string(child) + " on "));
  kill(child, SIGKILL);
  EXPECT_EQ(Wait(child).code, -SIGKILL);
  // What was killed has nothing locked.
  const EndedProcess resumed = Run({"--resume=run", "--steps=1", "--sample_length=0"});
  EXPECT_EQ(resumed.code, 0) << resumed.error;
}

// A folder of runs beside the text, and the text's parent, as `--data=.` has them.
TEST_F(TrainTest, AFolderAroundRunsIsTheTextAlone) {
  ASSERT_EQ(RunSmall({"--out=runs/1"}).code, 0);
  fs::remove(folder() + "/stdout");
  fs::create_directories(folder() + "/texts");
  fs::copy(folder() + "/text.txt", folder() + "/texts/text.txt");
  fs::rename(folder() + "/runs", folder() + "/texts/runs");
  fs::create_directories(folder() + "/texts/runs/1/checkpoints/step-000008.tmp");
  Write("texts/runs/1/checkpoints/step-000008.tmp/tensors.safetensors", "unfinished");
  const auto text_of = [](const EndedProcess& ended) {
    const size_t begin = ended.out.find("text       ");
    return ended.out.substr(begin, ended.out.find(", digest", begin) - begin);
  };
  const std::string alone = text_of(RunSmall({"--data=text.txt", "--out=texts/runs/2"}));
  const EndedProcess around = RunSmall({"--data=texts", "--out=texts/runs/3"});
  EXPECT_EQ(around.code, 0) << around.error;
  EXPECT_EQ(text_of(around), alone);
  const EndedProcess inside = RunSmall({"--data=texts/runs/1/log.jsonl", "--out=other"});
  EXPECT_EQ(inside.code, 2);
  EXPECT_THAT(inside.error, HasSubstr("texts/runs/1/log.jsonl is what the run "));
}

TEST_F(TrainTest, BadInputIsOneLineAndACode) {
  Write("empty.txt", "");
  Write("short.txt", "only a few bytes");
  ASSERT_EQ(RunSmall({"--out=taken"}).code, 0);
  const std::string taken = Read("taken/log.jsonl");
  struct Case {
    std::vector<std::string> arguments;
    int code;
    const char* message;
  };
  const Case cases[] = {
      {{"--hiden=3"}, 2, "train: unknown flag --hiden; did you mean --hidden?\n"},
      {{"--mesh=data=x"}, 2, "--mesh: "},
      {{"--mesh=dta=2"}, 1, "did you mean \"data\"?"},
      {{"--batch=8", "--micro_batches=3"}, 2, "expected a divisor of the batch, 8, got 3\n"},
      {{"--heads=5"}, 2, "heads: expected a divisor of hidden, 16, got 5\n"},
      {{"--layers=100000000"}, 2, "layers: expected 1 to 1000, got 100000000\n"},
      {{"--vocabulary=1"}, 2, "vocabulary: expected 2 to 16777216, got 1\n"},
      {{"--tokenizer=none"}, 2, "none: expected a folder of byte pairs, which does not exist"},
      {{"--vocabulary=300"}, 1, "text.txt: expected tokens for a model of 300, a file NAME.bin"},
      {{"--vocabulary=300", "--prompt=the"}, 2, "--prompt: expected numbers of tokens, 0 to 299"},
      {{"--data=none.txt"}, 1, "expected a file or a folder of text, got "},
      {{"--data=empty.txt"}, 1, "empty.txt is empty\n"},
      {{"--layers=48", "--hidden=16384"}, 1, "the plan does not fit: expected at most "},
      {{"--data=short.txt"}, 1, "a sequence of 16 tokens needs at least 17 bytes, got "},
      {{"--resume=nowhere"}, 2, "--preset: "},
      {{"--out=taken", "--lr=0.5"}, 2, "already holds a run, of other options (--lr="},
  };
  for (const Case& bad : cases) {
    const EndedProcess ended = RunSmall(bad.arguments);
    EXPECT_EQ(ended.code, bad.code) << bad.message << ended.error;
    EXPECT_THAT(ended.error, HasSubstr(bad.message));
    EXPECT_EQ(std::count(ended.error.begin(), ended.error.end(), '\n'), 1) << ended.error;
  }
  EXPECT_EQ(Read("taken/log.jsonl"), taken);
}

// Whoever may write the folder goes on with the run: what it makes takes its rights from the umask
// and nothing else.
TEST_F(TrainTest, TheUmaskSaysWhoSharesARun) {
  const mode_t before = umask(0002);
  const int code = RunSmall({}).code;
  umask(before);
  ASSERT_EQ(code, 0);
  int seen = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder() + "/run")) {
    ++seen;
    const fs::perms want = entry.is_directory() ? fs::perms(0775) : fs::perms(0664);
    EXPECT_EQ(entry.status().permissions(), want) << entry.path();
  }
  EXPECT_GE(seen, 8);  // options.txt, log.jsonl, run.lock, two checkpoints of two files
}

TEST_F(TrainTest, DamagedCheckpointIsRefusedAndTheOneBeforeItTaken) {
  ASSERT_EQ(RunSmall({}).code, 0);
  const std::string whole = Read("run/checkpoints/step-000006/tensors.safetensors");
  const std::string tensors = "run/checkpoints/step-000006/tensors.safetensors";
  FILE* file = fopen((folder() + "/" + tensors).c_str(), "r+b");
  fseek(file, -4, SEEK_END);
  fputs("XXXX", file);
  fclose(file);
  // By its own name it is an error of one line.
  const EndedProcess named = Run({"--resume=run/checkpoints/step-000006", "--steps=8"});
  EXPECT_EQ(named.code, 1);
  EXPECT_THAT(named.error, HasSubstr("train: run/checkpoints/step-000006: tensor "));
  EXPECT_THAT(named.error, HasSubstr(" is damaged: expected digest "));
  EXPECT_EQ(std::count(named.error.begin(), named.error.end(), '\n'), 1) << named.error;
  EXPECT_THAT(Read("run/log.jsonl"), HasSubstr("{\"step\":6,\"loss\":"));
  // As the last one of a run it costs a warning, and the run comes to the same bits.
  const EndedProcess resumed = Run({"--resume=run"});
  EXPECT_EQ(resumed.code, 0) << resumed.error;
  EXPECT_THAT(resumed.error, HasSubstr("run/checkpoints/step-000006 is not whole: "));
  EXPECT_THAT(resumed.error, HasSubstr("; --resume takes run/checkpoints/step-000004"));
  EXPECT_EQ(Read(tensors), whole);
  EXPECT_THAT(*ListDirectory(folder() + "/run/checkpoints"),
              ::testing::ElementsAre("step-000004", "step-000006", "step-000006.damaged"));
  EXPECT_EQ(Run({"--resume=run", "--steps=8"}).code, 0);
}

TEST_F(TrainTest, AFolderThatTakesNoCheckpointCostsAWarningAndTheCodeOfTheEnd) {
  fs::create_directories(folder() + "/run");
  Write("run/checkpoints", "a file, where a folder should be");
  const EndedProcess ended = RunSmall({});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.out, HasSubstr("warning: no checkpoint of step 4: run/checkpoints: cannot "));
  EXPECT_THAT(ended.out, HasSubstr("there is no earlier one; the next try is at step 6"));
  EXPECT_THAT(ended.out, HasSubstr("checkpoints that were not written: 2; see the warnings"));
  EXPECT_THAT(ended.error, HasSubstr("train: the last checkpoint was not written: run/check"));
  EXPECT_THAT(Read("run/log.jsonl"), HasSubstr("{\"step\":6,\"loss\":"));
}

TEST_F(TrainTest, HelpAndExplainStopThere) {
  const EndedProcess help = Run({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, HasSubstr("--mesh=AXES"));
  const EndedProcess explained = RunSmall({"--explain", "--mesh=data=2 model=2"});
  EXPECT_EQ(explained.code, 0) << explained.error;
  EXPECT_THAT(explained.out, HasSubstr("mlp/up"));
  EXPECT_FALSE(fs::exists(folder() + "/run"));
}

}  // namespace
}  // namespace sluice
