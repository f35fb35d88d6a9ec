// The trainer as people meet it: started as a process, on a few documents and texts.

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/testing/trainer_process.h"
#include "gmock/gmock.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class TrainTest : public TrainerProcessTest {
 protected:
  TrainTest() : TrainerProcessTest("models/bert/train") {}

  // Forty documents and eighty texts of two classes, which differ in their words.
  void SetUp() override {
    TrainerProcessTest::SetUp();
    std::string documents, texts;
    for (int i = 0; i < 40; ++i) {
      for (int sentence = 0; sentence < 6; ++sentence) {
        absl::StrAppend(&documents, "the boat number ", i, " sails on the sea of day ", sentence,
                        " and meets the wind. ");
      }
      absl::StrAppend(&documents, "\n\n");
      absl::StrAppend(&texts, "sea\tthe boat sails on the sea of day ", i, "\n");
      absl::StrAppend(&texts, "land\tthe train meets the hills of number ", i, "\n");
    }
    Write("documents.txt", documents);
    Write("texts.txt", texts);
  }

  // Data to learn words from and then classes.
  void WriteBoth() {
    fs::create_directories(folder() + "/both");
    for (const char* part : {"train", "test"}) {
      Write(absl::StrCat("both/reuters-r8-", part, ".tab"), Read("texts.txt"));
    }
  }

  // A model of seconds.
  static std::vector<std::string> Small(std::vector<std::string> more) {
    more.insert(more.begin(), {"--layers=2", "--hidden=16", "--heads=2", "--sequence_length=24",
                               "--vocabulary=120", "--predictions=4", "--batch=8"});
    return more;
  }
};

TEST_F(TrainTest, PreTrainsGoesOnAndTellsTextsApart) {
  const EndedProcess first =
      Run(Small({"--preset=small", "--data=documents.txt", "--steps=20", "--out=words",
                 "--eval_every=10", "--save_every=10", "--warmup=2"}));
  ASSERT_EQ(first.code, 0) << first.error;
  for (const char* part :
       {"2 layers, hidden 16, 2 heads, sequences of 24, 120 word pieces", "learned from the text",
        "step 20/20", "held-out masked_loss", ", next_accuracy ", "tokens/s"}) {
    EXPECT_THAT(first.out, HasSubstr(part));
  }
  EXPECT_THAT(Read("words/vocab.txt"), StartsWith("[PAD]\n"));

  const EndedProcess more = Run(
      {"--resume=words", "--mesh=data=2 model=2", "--precision=bf16", "--steps=24", "--check_nan"});
  EXPECT_EQ(more.code, 0) << more.error;
  EXPECT_THAT(more.out, HasSubstr("step 24/24"));
  EXPECT_THAT(more.out, HasSubstr("words/vocab.txt"));

  // The vocabulary is the first run's, and so are all parameters but the new head's.
  const EndedProcess told = Run(
      Small({"--preset=classify", "--classes=2", "--data=texts.txt", "--steps=60", "--lr=0.003",
             "--warmup=6", "--out=told", "--init=words/checkpoints/step-000024", "--mesh=pipe=2"}));
  ASSERT_EQ(told.code, 0) << told.error;
  EXPECT_THAT(told.out, HasSubstr("begins     with 39 of 41 parameters of "));
  EXPECT_THAT(told.out, HasSubstr("anew: classifier/bias, classifier/weight"));
  EXPECT_THAT(told.out, HasSubstr("words/vocab.txt"));
  EXPECT_THAT(told.out, HasSubstr("a linear classifier of words names 1.000 right"));
  const std::string& out = told.out;
  EXPECT_GT(std::stod(out.substr(out.rfind(", accuracy ") + 11)), 0.9) << out;
}

// Without a task both are done: the second run begins with what the first has learned, on the same
// mesh, in a folder of its own. Where it has ended, resuming has nothing left to do.
TEST_F(TrainTest, WithoutATaskLearnsWordsAndThenClasses) {
  WriteBoth();
  const EndedProcess both = Run(Small({"--data=both", "--classes=2", "--steps=20", "--warmup=2",
                                       "--out=all", "--mesh=data=2 model=2", "--threads=1"}));
  ASSERT_EQ(both.code, 0) << both.error;
  EXPECT_THAT(both.out, HasSubstr("step 20/20"));
  EXPECT_THAT(both.out, HasSubstr("of all/checkpoints/step-000020; anew: classifier/bias"));
  EXPECT_THAT(both.out, HasSubstr("step 1200/1200"));
  EXPECT_GT(std::stod(both.out.substr(both.out.rfind(", accuracy ") + 11)), 0.9) << both.out;
  EXPECT_THAT(Read("all/classify/options.txt"), HasSubstr("data=2 model=2"));

  const EndedProcess again = Run({"--resume=all"});
  EXPECT_EQ(again.code, 0) << again.error;
}

// A net serves one session, so that ranks meet once more for the second run, with their secret
// and their seal. What it comes to is what one process comes to.
TEST_F(TrainTest, ProcessesLearnWordsAndThenClasses) {
  WriteBoth();
  Write("secret", "what only ranks of this job know");
  fs::permissions(folder() + "/secret", fs::perms::owner_read | fs::perms::owner_write);
  const auto arguments = [](const std::string& out) {
    return Small({"--data=both", "--classes=2", "--steps=6", "--warmup=2", "--out=" + out,
                  "--mesh=data=2", "--threads=1", "--eval_every=0"});
  };
  const auto result = [](const std::string& out) {
    const size_t at = out.rfind("held-out loss");
    return at == std::string::npos ? out : out.substr(at, out.find('\n', at) - at);
  };
  const EndedProcess alone = Run(arguments("one"));
  ASSERT_EQ(alone.code, 0) << alone.error;
  const std::vector<pid_t> ranks =
      StartRanks(2, arguments("two"), {{"--secret_file=secret", "--seal"}});
  const EndedProcess first = Wait(ranks[0], "0"), second = Wait(ranks[1], "1");
  EXPECT_EQ(second.code, 0) << second.error;
  ASSERT_EQ(first.code, 0) << first.error;
  EXPECT_THAT(first.out, HasSubstr("of two/checkpoints/step-000006; anew: classifier/bias"));
  EXPECT_THAT(first.out, HasSubstr("step 1200/1200"));
  EXPECT_EQ(result(first.out), result(alone.out));
  const std::string sealed = "; what goes over TCP is sealed";
  EXPECT_LT(first.out.find(sealed), first.out.rfind(sealed)) << "not sealed again";
  EXPECT_EQ(second.out, "");
}

TEST_F(TrainTest, ErrorsAreOneLine) {
  struct Bad {
    std::vector<std::string> arguments;
    int code;
    std::string error;
  };
  fs::create_directories(folder() + "/empty");
  Write("few.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n");
  for (const Bad& bad : std::vector<Bad>{
           {{"--steps=1"}, 1, "//tools:dataset -- fetch text-classes"},
           {{"--data=empty"}, 1, "expected files NAME-train.tab in "},
           {{"--data=no/such"}, 1, "no/such"},
           {{"--data=documents.txt"}, 1, "documents.txt"},
           {{"--data=documents.txt", "--task=read"},
            2,
            "--task: expected pretrain, classify or both"},
           {{"--data=texts.txt", "--classes=0"}, 2, "--classes: expected at least 1"},
           {{"--data=documents.txt", "--heads=3"}, 2, "heads: expected a divisor of hidden, 16"},
           {{"--task=pretrain", "--data=documents.txt", "--vocabulary=6"}, 1, "expected"},
           {{"--task=pretrain", "--data=documents.txt", "--vocabulary=5",
             "--vocabulary_file=few.txt"},
            1,
            "vocabulary: expected at most 5 pieces in "},
           {{"--task=pretrain", "--data=documents.txt", "--vocabulary_file=no.txt"}, 1, "no.txt"},
           {{"--task=pretrain", "--data=documents.txt", "--init=empty"}, 2, "--init: empty"},
           {{"--preset=classify", "--data=texts.txt", "--classes=3"},
            1,
            "classes: expected --classes=2, as "},
           {{"--resume=x", "--init=y"}, 2, "--init: expected a run that begins"},
           {{"--resume=x"}, 2, "expected a checkpoint or the folder of a run"}}) {
    std::vector<std::string> arguments = Small(bad.arguments);
    if (bad.arguments[0] == "--resume=x") arguments = bad.arguments;  // with a preset it is no run
    const EndedProcess ended = Run(arguments);
    EXPECT_EQ(ended.code, bad.code) << bad.error;
    EXPECT_THAT(ended.error, HasSubstr(bad.error));
    EXPECT_EQ(std::count(ended.error.begin(), ended.error.end(), '\n'), 1) << ended.error;
  }
}

}  // namespace
}  // namespace sluice
