// Fonts of a few rectangles stand for the real ones: what is cropped, what is held out, what is
// left out.
#include "models/insightface/characters.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/insightface/font.h"
#include "models/insightface/tiny_font.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

class CharactersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_);
  }
  void Write(const std::string& name, const Glyphs& glyphs) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << TinyFont(glyphs);
  }
  std::string folder_;
};

// Characters from U+4E00 on, each a bar that is `thickness` high and of a length of its own.
Glyphs Bars(int count, int16_t thickness) {
  Glyphs glyphs;
  for (int i = 0; i < count; ++i) {
    glyphs[0x4e00 + i] = {
        {100, 200, static_cast<int16_t>(300 + 60 * i), static_cast<int16_t>(200 + thickness)}};
  }
  return glyphs;
}

TEST_F(CharactersTest, APictureIsTheInkAsLargeAsFits) {
  // Far from the middle, twice as wide as high.
  Write("font.ttf", {{'A', {{0, 0, 9, 9}}}, {0x4e03, {{700, 10, 900, 110}}}, {0x4e07, {}}});
  absl::StatusOr<Font> font = Font::Open(folder_ + "/font.ttf");
  ASSERT_TRUE(font.ok()) << font.status();
  EXPECT_THAT(font->Characters(), ::testing::ElementsAre(0x4e03, 0x4e07));
  std::vector<uint8_t> pixels(32 * 32, 7);
  absl::StatusOr<bool> ink = font->Draw(0x4e03, 32, pixels.data());
  ASSERT_TRUE(ink.ok()) << ink.status();
  EXPECT_TRUE(*ink);
  for (int y = 0; y < 32; ++y) {
    for (int x = 0; x < 32; ++x) {
      const bool inside = x >= 2 && x < 30 && y >= 9 && y < 23;
      EXPECT_EQ(pixels[y * 32 + x], inside ? 255 : 0) << x << ", " << y;
    }
  }
  ink = font->Draw(0x4e07, 32, pixels.data());
  ASSERT_TRUE(ink.ok()) << ink.status();
  EXPECT_FALSE(*ink);
  EXPECT_EQ(*std::max_element(pixels.begin(), pixels.end()), 0);
}

TEST_F(CharactersTest, CharactersAndFontsAreHeldOut) {
  Write("a.ttf", Bars(10, 50));
  Write("b.ttf", Bars(12, 100));  // two that a has not
  Write("c.ttf", Bars(10, 200));
  Write("d.ttf", Bars(11, 300));
  const std::vector<FontFile> fonts = {{"a.ttf"},
                                       {"b.ttf"},
                                       {"c.ttf", FontFile::kHeldOutPrinted},
                                       {"d.ttf", FontFile::kHeldOutHandwriting}};
  const auto drawn = DrawCharacters(folder_, fonts, {.image_size = 16, .held_out = 3});
  ASSERT_TRUE(drawn.ok()) << drawn.status();
  EXPECT_EQ(drawn->learned, 7);
  EXPECT_EQ(drawn->held_out, 3);
  EXPECT_EQ(drawn->training.labels.size(), 14u);
  EXPECT_EQ(*std::max_element(drawn->training.labels.begin(), drawn->training.labels.end()), 6);
  EXPECT_THAT(drawn->printed.labels, ::testing::ElementsAre(0, 1, 2));
  EXPECT_THAT(drawn->handwriting.labels, ::testing::ElementsAre(0, 1, 2));
  EXPECT_EQ(drawn->training.pixels.size(), 14u * 16 * 16);
  EXPECT_EQ(drawn->blank + drawn->repeated, 0);

  const auto fewer =
      DrawCharacters(folder_, fonts, {.image_size = 16, .held_out = 3, .classes = 4});
  ASSERT_TRUE(fewer.ok()) << fewer.status();
  EXPECT_EQ(fewer->training.labels.size(), 8u);
  EXPECT_EQ(fewer->printed.pixels, drawn->printed.pixels) << "the test changed with the training";
}

TEST_F(CharactersTest, BlankGlyphsAndOtherFontsGlyphsAreLeftOut) {
  Glyphs some = Bars(6, 50);
  some[0x4e02] = {};
  Write("a.ttf", some);
  Glyphs others = Bars(6, 150);
  others[0x4e04] = some[0x4e04];  // moved, and still the same
  for (Rectangle& bar : others[0x4e04]) bar.bottom += 300, bar.top += 300;
  Write("b.ttf", others);
  Write("c.ttf", Bars(6, 250));
  const auto drawn =
      DrawCharacters(folder_, {{"a.ttf"}, {"b.ttf"}, {"c.ttf", FontFile::kHeldOutPrinted}},
                     {.image_size = 16, .held_out = 0});
  ASSERT_TRUE(drawn.ok()) << drawn.status();
  EXPECT_EQ(drawn->blank, 1);
  EXPECT_EQ(drawn->repeated, 1);
  EXPECT_EQ(drawn->training.labels.size(), 10u);
}

TEST_F(CharactersTest, WhatIsMissingIsNamed) {
  Write("a.ttf", Bars(6, 50));
  std::ofstream(folder_ + "/text.ttf") << "no font at all";
  const auto error = [&](const std::string& folder, const std::vector<FontFile>& fonts,
                         int64_t classes) {
    return std::string(
        DrawCharacters(folder, fonts, {.held_out = 2, .classes = classes}).status().message());
  };
  EXPECT_EQ(error("nowhere", {{"a.ttf"}}, 0),
            "data: font nowhere/a.ttf: expected a file, got none; bazel run //tools:dataset -- "
            "fetch kanji-fonts brings the fonts");
  EXPECT_THAT(error(folder_, {{"text.ttf"}}, 0),
              HasSubstr("text.ttf: expected a font of outlines with Unicode's characters, got: "));
  EXPECT_EQ(error(folder_, {{"a.ttf"}}, 5),
            "data: expected 5 characters to learn and 2 to hold out, got 6 that all fonts have");
}

TEST(CharacterFontsTest, NoDesignIsOnBothSides) {
  std::set<std::string> names;
  int of_use[3] = {};
  for (const FontFile& font : CharacterFonts()) {
    EXPECT_TRUE(names.insert(font.name).second) << font.name;
    ++of_use[font.use];
  }
  EXPECT_GE(of_use[FontFile::kTraining], 15);
  EXPECT_GE(of_use[FontFile::kHeldOutPrinted], 3);
  EXPECT_GE(of_use[FontFile::kHeldOutHandwriting], 2);
}

}  // namespace
}  // namespace sluice
