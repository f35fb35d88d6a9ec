// The trainer as people meet it: started as a process, on drawn pictures, and on fonts of
// rectangles that stand for the real ones.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "framework/data/encode_testing.h"
#include "framework/testing/trainer_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/insightface/characters.h"
#include "models/insightface/tiny_font.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class TrainTest : public TrainerProcessTest {
 protected:
  TrainTest() : TrainerProcessTest("models/insightface/train") {}

  // A network of seconds, of which the rest is told.
  EndedProcess RunSmall(std::vector<std::string> arguments) {
    const std::vector<std::string> small = {"--width=4",  "--embedding=16", "--image_size=16",
                                            "--batch=16", "--steps=4",      "--out=run"};
    arguments.insert(arguments.begin(), small.begin(), small.end());
    return Run(arguments);
  }

  // Under every name of a font 1,020 characters, each of the squares that are its number's bits
  // between two corners, and smaller from font to font.
  void WriteFonts() {
    const std::string fonts = folder() + "/datasets/kanji-fonts";
    fs::create_directories(fonts);
    int16_t side = 200;
    for (const FontFile& font : CharacterFonts()) {
      Glyphs glyphs;
      for (int i = 0; i < 1020; ++i) {
        std::vector<Rectangle>& squares = glyphs[0x4e00 + i];
        squares = {{0, 0, 50, 50}, {950, 950, 1000, 1000}};
        for (int bit = 0; bit < 10; ++bit) {
          const auto x = static_cast<int16_t>(50 + 230 * (bit % 4));
          const auto y = static_cast<int16_t>(100 + 280 * (bit / 4));
          if (((i + 1) >> bit & 1) == 0) continue;  // at least one square
          squares.push_back({x, y, static_cast<int16_t>(x + side), static_cast<int16_t>(y + side)});
        }
      }
      std::ofstream(fonts + "/" + font.name, std::ios::binary) << TinyFont(glyphs);
      side = static_cast<int16_t>(side - 5);
    }
  }

  // Pairs of coloured pictures, every other of one picture and itself, as Python 2 pickles them.
  std::string Pairs(int count, int size) {
    std::string pictures, truths;
    const auto add = [&](int shade) {
      const std::string png =
          EncodePng(std::vector<uint8_t>(size * size * 3, static_cast<uint8_t>(shade)), size, size);
      const auto length = static_cast<uint32_t>(png.size());
      pictures += "T" + std::string(reinterpret_cast<const char*>(&length), 4) + png;
    };
    for (int i = 0; i < count; ++i) {
      add(5 * i), add(i % 2 == 0 ? 5 * i : 255 - 5 * i);
      truths += i % 2 == 0 ? '\x88' : '\x89';
    }
    return "\x80\x02](" + pictures + "e](" + truths + "e\x86.";
  }
  void WriteBytes(const std::string& name, const std::string& bytes) {
    std::ofstream(folder() + "/" + name, std::ios::binary) << bytes;
  }
};

TEST_F(TrainTest, VerifiesByASetOfTheField) {
  WriteBytes("agedb_30.bin", Pairs(24, 16));
  const std::vector<std::string> synthetic = {"--preset=synthetic", "--network=mobilefacenet",
                                              "--classes=1000", "--verification=agedb_30.bin"};
  const EndedProcess ended = RunSmall(synthetic);
  ASSERT_EQ(ended.code, 0) << ended.error;
  EXPECT_THAT(ended.out, HasSubstr("verified   on 24 pairs, 12 of one identity; agedb_30.bin"));
  EXPECT_THAT(Read("run/log.jsonl"), HasSubstr("{\"step\":4,\"val_accuracy\":"));
  EXPECT_THAT(Read("run/roc_agedb_30.svg"), HasSubstr("agedb_30: accuracy "));
  // The pictures of a pair of one are equal, so that any network has the same embedding of both.
  // All are of one shade each, and all directions of pixels the same.
  EXPECT_THAT(ended.out, HasSubstr("agedb_30: accuracy 1.0000 (of pixels 0.5000)"));

  // Which pairs show one identity is a part of the data.
  const std::string whole = Pairs(24, 16);
  std::string turned = whole;
  const size_t truths = turned.rfind("](") + 2;
  std::swap(turned[truths], turned[truths + 1]);
  WriteBytes("agedb_30.bin", turned);
  const EndedProcess changed = Run({"--resume=run", "--steps=6"});
  EXPECT_EQ(changed.code, 1);
  EXPECT_THAT(changed.error, HasSubstr("expected the held-out data that the run has seen, "));

  const std::pair<std::string, std::string> damaged[] = {
      {whole.substr(0, 300), "damaged.bin: expected bytes of a length that the file has, got "},
      {"\x80\x02" + std::string("cos\nsystem\n"), "damaged.bin: expected an instruction that "},
      {Pairs(24, 8), "damaged.bin: picture 0: expected 16 x 16 as --image_size says, got 8 x 8"},
      {Pairs(4, 16), "damaged.bin: expected at least 10 pairs of either kind, got 2 of 4 "},
      {"\x80\x02](U\x03"
       "abcU\x03"
       "abce]\x88"
       "a\x86.",
       "damaged.bin: picture 0: expected "},
  };
  for (const auto& [bytes, message] : damaged) {
    WriteBytes("damaged.bin", bytes);
    std::vector<std::string> arguments = synthetic;
    arguments.back() = "--verification=damaged.bin";
    arguments.push_back("--out=other");
    const EndedProcess refused = RunSmall(arguments);
    EXPECT_EQ(refused.code, 1) << message;
    EXPECT_THAT(refused.error, HasSubstr(message));
    EXPECT_EQ(std::count(refused.error.begin(), refused.error.end(), '\n'), 1) << refused.error;
  }
}

// Two ranks that verify on different pairs would give a figure of neither set.
TEST_F(TrainTest, RanksVerifyOnTheSamePairs) {
  WriteBytes("agedb_30.bin", Pairs(24, 16));
  WriteBytes("copy.bin", Pairs(24, 16));
  WriteBytes("lfw.bin", Pairs(26, 16));
  const EndedProcess ended = RunSmall({"--preset=synthetic", "--network=mobilefacenet",
                                       "--classes=1000", "--verification=agedb_30.bin"});
  ASSERT_EQ(ended.code, 0) << ended.error;
  for (const std::string other : {"copy", "lfw"}) {
    const std::vector<pid_t> ranks =
        StartRanks(2, {"--resume=run", "--verify", "--mesh=data=2"},
                   {{"--verification=agedb_30.bin"}, {"--verification=" + other + ".bin"}});
    for (const char* rank : {"0", "1"}) {
      const EndedProcess verified = Wait(ranks[*rank - '0'], rank);
      EXPECT_EQ(verified.code, other == "copy" ? 0 : 1) << verified.error;
      const char* const told = other == "copy" ? "" : "--data, held-out: expected ";
      EXPECT_THAT(verified.error, HasSubstr(told));
    }
  }
}

TEST_F(TrainTest, TrainsOnASampleOfTheClassesAndGoesOnElsewhere) {
  const EndedProcess first =
      RunSmall({"--preset=synthetic", "--network=mobilefacenet", "--classes=1000",
                "--sample_rate=0.1", "--sample_groups=4", "--steps=2"});
  ASSERT_EQ(first.code, 0) << first.error;
  EXPECT_THAT(first.out, HasSubstr("1000 classes, of which a step has 100\n"));
  const EndedProcess more = Run({"--resume=run", "--mesh=model=4", "--steps=4"});
  ASSERT_EQ(more.code, 0) << more.error;
  EXPECT_THAT(Read("run/log.jsonl"), HasSubstr("{\"step\":4,\"loss\":"));
}

TEST_F(TrainTest, LearnsCharactersAndVerifiesOthers) {
  WriteFonts();
  const EndedProcess first = RunSmall({"--classes=20", "--eval_every=2"});
  ASSERT_EQ(first.code, 0) << first.error;
  for (const char* part : {"characters 20 to learn from in 380 pictures, 1000 held out in 7000; 0 "
                           "blank and 0 repeated",
                           "step 0: held-out accuracy 0.", "step 2: held-out accuracy ", "step 4/4",
                           "printed: accuracy 0.", "handwriting: accuracy 0.", "false positives",
                           "a pixel comparison's 0."}) {
    EXPECT_THAT(first.out, HasSubstr(part));
  }
  EXPECT_THAT(Read("run/log.jsonl"), HasSubstr("{\"step\":4,\"val_accuracy\":0."));
  EXPECT_THAT(Read("run/log.jsonl"), HasSubstr("\"val_tpr_1e-3\":"));
  EXPECT_THAT(Read("run/roc_printed.svg"), HasSubstr("printed: accuracy 0."));

  // What a resumed run verifies is what was measured, on other devices too.
  const size_t begin = first.out.find("printed: accuracy ");
  const std::string measured = first.out.substr(begin, first.out.find('\n', begin) - begin);
  const EndedProcess verified = Run({"--resume=run", "--verify"});
  ASSERT_EQ(verified.code, 0) << verified.error;
  EXPECT_THAT(verified.out, HasSubstr(measured));
  const EndedProcess more = Run({"--resume=run", "--mesh=data=2 model=2", "--steps=6"});
  ASSERT_EQ(more.code, 0) << more.error;
  EXPECT_THAT(Read("run/log.jsonl"), HasSubstr("{\"step\":6,\"val_accuracy\":0."));
}

TEST_F(TrainTest, SyntheticPicturesNeedNoData) {
  const EndedProcess ended =
      RunSmall({"--preset=synthetic", "--network=mobilefacenet", "--classes=1000"});
  ASSERT_EQ(ended.code, 0) << ended.error;
  EXPECT_THAT(ended.out, HasSubstr("pictures   256 drawn at random"));
  EXPECT_THAT(Read("run/log.jsonl"), HasSubstr("{\"step\":4,\"loss\":"));
}

TEST_F(TrainTest, BadInputIsOneLineAndACode) {
  struct Case {
    std::vector<std::string> arguments;
    int code;
    std::string message;
  };
  const Case cases[] = {
      {{},
       1,
       "kanji-fonts/ipag.ttf: expected a file, got none; bazel run //tools:dataset -- fetch "
       "kanji-fonts brings the fonts\n"},
      {{"--network=ir19"}, 2, "network: expected ir18, ir50, ir100, mobilefacenet, got ir19\n"},
      {{"--classes=1"}, 2, "classes: expected 2 to "},
      {{"--channels=3"}, 1, "data: characters are grey: expected --channels=1, got 3\n"},
      {{"--groups=2", "--mesh=model=4"}, 2, "got 2 of 2 for them, of which some would be cut\n"},
      {{"--margin=2"}, 2, "margin: expected 0 to 1.5, got 2\n"},
  };
  for (const Case& bad : cases) {
    const EndedProcess ended = RunSmall(bad.arguments);
    EXPECT_EQ(ended.code, bad.code) << bad.message << ended.error;
    EXPECT_THAT(ended.error, HasSubstr(bad.message));
    EXPECT_EQ(std::count(ended.error.begin(), ended.error.end(), '\n'), 1) << ended.error;
  }
}

}  // namespace
}  // namespace sluice
