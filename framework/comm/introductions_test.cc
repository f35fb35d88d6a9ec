#include "framework/comm/introductions.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

TEST(IntroductionsTest, OfSeveralProcessesAreOne) {
  Introductions first, second, all;
  first.ids[{0, 2}] = std::string("\0\n x", 4);
  first.cards = {{0, "a/1"}, {1, "a/2"}};
  second.ids[{3, 1}] = "id";
  second.cards = {{2, "b/1"}};
  all.ids = {{{0, 2}, first.ids[{0, 2}]}, {{3, 1}, "id"}};
  all.cards = {{0, "a/1"}, {1, "a/2"}, {2, "b/1"}};
  const auto parsed = ParseIntroductions(PrintIntroductions(second) + PrintIntroductions(first));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, all);
  EXPECT_EQ(*ParseIntroductions(""), Introductions());
}

TEST(IntroductionsTest, WhatIsNoneIsNamed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"id 0,1", "expected \"id DEVICES DIGITS\" or \"card DEVICE NAME\", got \"id 0,1\""},
      {"ids 0,1 00", "got \"ids 0,1 00\""},
      {"id 0,x 00", "expected devices of a group"},
      {"id 0,-1 00", "expected devices of a group"},
      {"id 0,99999999999 00", "expected devices of a group"},
      {"id 0,1 0", "expected an id in hexadecimal digits"},
      {"id 0,1 0g", "expected an id in hexadecimal digits"},
      {"id 0,1 00\nid 0,1 01", "expected one id for a group"},
      {"card one a", "expected the number of a device"},
      {"card 1 ", "expected the name of a card"},
      {"card 1 a\ncard 1 b", "expected one card for a device"},
      {"id 0 \x01" + std::string(500, 'z'), "got \"id 0 \\x01zz"},
  };
  for (const auto& [text, expected] : cases) {
    const auto parsed = ParseIntroductions(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(expected));
    EXPECT_LT(parsed.status().message().size(), 300u);
  }
}

TEST(IntroductionsTest, ACardIsOfOneDeviceOfAGroup) {
  Introductions said;
  said.cards = {{0, "host/01:00"}, {1, "host/02:00"}, {2, "other/01:00"}, {3, "host/01:00"}};
  EXPECT_TRUE(CheckCardEach(said, {0, 1, 2}).ok());
  EXPECT_EQ(std::string(CheckCardEach(said, {0, 1, 3}).message()),
            "collectives of devices 0, 1, 3: expected a card for each, got card 01:00 for devices "
            "0 and 3; --reproducible makes copies of them");
  EXPECT_THAT(std::string(CheckCardEach(said, {0, 4}).message()),
              HasSubstr("expected the card of device 4"));
}

}  // namespace
}  // namespace sluice
