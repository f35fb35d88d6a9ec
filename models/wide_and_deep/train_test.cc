// The trainer as people meet it: started as a process, on a log of a few clicks.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/testing/trainer_process.h"
#include "gmock/gmock.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

class TrainTest : public TrainerProcessTest {
 protected:
  TrainTest() : TrainerProcessTest("models/wide_and_deep/train") {}

  // Whether two values are equal is the label: no value says so for itself.
  void SetUp() override {
    TrainerProcessTest::SetUp();
    std::string text;
    for (int i = 0; i < 2000; ++i) {
      const int a = i % 2, b = i / 2 % 2;
      absl::StrAppend(&text, a == b ? 1 : 0);
      for (int n = 0; n < 13; ++n) absl::StrAppend(&text, "\t", n < 12 ? "" : absl::StrCat(i % 9));
      for (int n = 0; n < 26; ++n) {
        absl::StrAppend(&text, "\t", n == 0 ? absl::StrCat(a) : n == 1 ? absl::StrCat(b) : "");
      }
      text += "\n";
    }
    Write("clicks.txt", text);
  }

  // A model of seconds.
  static std::vector<std::string> Small(std::vector<std::string> more) {
    more.insert(more.begin(), {"--preset=logs", "--vocabulary=2600", "--widths=4", "--hidden=32,16",
                               "--batch=64", "--lr=0.01", "--warmup=5"});
    return more;
  }
};

double LastArea(const std::string& out) {
  return std::stod(out.substr(out.rfind("held-out auc ") + 13));
}

TEST_F(TrainTest, LearnsWhatNoValueSaysAloneAndGoesOnOnAnotherMesh) {
  const EndedProcess first = Run(Small(
      {"--data=clicks.txt", "--steps=240", "--out=run", "--eval_every=120", "--mesh=model=2"}));
  ASSERT_EQ(first.code, 0) << first.error;
  for (const char* part : {"wide 26 features of 2600 rows, deep 26 of 2600 x 4,",
                           "logistic regression on single values: auc ", "step 240/240",
                           "on all 199 samples, ", ", log_loss ", "samples/s"}) {
    EXPECT_THAT(first.out, HasSubstr(part));
  }
  EXPECT_GT(LastArea(first.out), 0.95) << first.out;

  const EndedProcess more = Run({"--resume=run", "--mesh=data=2 table=2", "--precision=bf16",
                                 "--micro_batches=2", "--steps=244", "--check_nan"});
  EXPECT_EQ(more.code, 0) << more.error;
  EXPECT_THAT(more.out, HasSubstr("step 244/244"));
  EXPECT_GT(LastArea(more.out), 0.95) << more.out;
}

TEST_F(TrainTest, ErrorsAreOneLine) {
  struct Bad {
    std::vector<std::string> arguments;
    int code;
    std::string error;
  };
  Write("short.txt", "1\t2\n");
  for (const Bad& bad : std::vector<Bad>{
           {{"--data=no/such", "--preset=flights"}, 1, "//tools:dataset -- fetch flights-2013"},
           {Small({"--data=short.txt", "--steps=1"}), 1,
            "short.txt:1: expected a label, 13 counts"},
           {Small({"--data=clicks.txt", "--widths=4,4"}), 2, "--widths: expected 1, one a table"},
           {Small({"--data=clicks.txt", "--device_memory=0.0001"}), 1, "memory for a device"}}) {
    const EndedProcess ended = Run(bad.arguments);
    EXPECT_EQ(ended.code, bad.code) << bad.error;
    EXPECT_THAT(ended.error, HasSubstr(bad.error));
  }
}

}  // namespace
}  // namespace sluice
