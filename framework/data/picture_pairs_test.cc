#include "framework/data/picture_pairs.h"

#include <string>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What Python 3 writes of ([b"one", b"two", b"xx", b""], [True, False]).
constexpr char kProtocol3[] =
    "80035d71002843036f6e657101430374776f710243027878710343007104655d7105288889658671062e";
constexpr char kProtocol4[] =
    "80049521000000000000005d942843036f6e6594430374776f944302787894430094655d942888896586942e";

std::string Bytes(absl::string_view hex) { return absl::HexStringToBytes(hex); }

void ExpectFourPictures(const std::string& bytes) {
  const auto pairs = ParsePicturePairs(bytes);
  ASSERT_TRUE(pairs.ok()) << pairs.status();
  EXPECT_THAT(pairs->pictures, ElementsAre("one", "two", "xx", ""));
  EXPECT_THAT(pairs->same, ElementsAre(true, false));
}

TEST(PicturePairsTest, WhatPython3Writes) {
  ExpectFourPictures(Bytes(kProtocol3));
  ExpectFourPictures(Bytes(kProtocol4));
  std::string protocol5 = Bytes(kProtocol4);
  protocol5[1] = 5;
  ExpectFourPictures(protocol5);
}

// Of strings, whose lengths are of one byte or of four; long lists in pieces, short ones alone.
TEST(PicturePairsTest, WhatPython2Writes) {
  std::string long_string = "T";
  long_string += std::string("\x03\0\0\0two", 7);
  ExpectFourPictures(std::string("\x80\x02]q\0(U\x03oneq\x01", 13) + long_string +
                     std::string("r\0\x01\0\0eU\x02xxaU\0a]q\x02\x88"
                                 "a\x89"
                                 "a\x86q\x03.",
                                 25));
}

std::string ErrorOf(const std::string& bytes) {
  const auto pairs = ParsePicturePairs(bytes);
  EXPECT_TRUE(pairs.ok() || absl::IsDataLoss(pairs.status())) << pairs.status();
  return std::string(pairs.status().message());
}

// What a general unpickler would call: os.system("true").
TEST(PicturePairsTest, ObjectsOfPythonAreRefused) {
  EXPECT_EQ(ErrorOf("\x80\x02"
                    "cos\nsystem\nU\x04true\x85R."),
            "expected an instruction that a list of pictures or of truth values takes, got 63 at "
            "byte 2");
  // Bytes as Python 3 writes them in protocol 2, by a call.
  EXPECT_THAT(ErrorOf("\x80\x02]q\x01"
                      "c_codecs\nencode\n"),
              HasSubstr("got 63 at byte 5"));
}

TEST(PicturePairsTest, DamagedFilesAreOneClearError) {
  const std::string whole = Bytes(kProtocol3);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THAT(ErrorOf(whole.substr(0, size)), HasSubstr("expected ")) << size;
  }
  EXPECT_EQ(ErrorOf(whole + "."), "expected the end of the file, got 1 bytes more at byte 41");
  EXPECT_EQ(ErrorOf("(lp0\n."),
            "expected a pickle of protocol 2 to 5, which begins with 80 02 to 80 05 at byte 0");
  EXPECT_THAT(ErrorOf(Bytes("8002542fffffff")),
              HasSubstr("a length that the file has, got a length of 4294967087 at byte 2"));
  const std::string head = std::string("\x80\x02", 2);
  EXPECT_THAT(ErrorOf(head + "]]e."), HasSubstr("a mark before what is appended at byte 4"));
  EXPECT_THAT(ErrorOf(head + "U\x01xU\x01xa."), HasSubstr("a list to append to at byte 8"));
  EXPECT_THAT(ErrorOf(head + "a"), HasSubstr("a value to append at byte 2"));
  EXPECT_THAT(ErrorOf(head + "]]a."),
              HasSubstr("lists of bytes and truth values, got a list at byte 4"));
  EXPECT_THAT(ErrorOf(head + "]\x88\x86."), HasSubstr("two lists to make a pair of at byte 4"));
  EXPECT_THAT(ErrorOf(head + "]."), HasSubstr("a pair of lists to be all that is left at byte 3"));
  EXPECT_THAT(ErrorOf(head + "]U\x01xa]U\x01xa\x86."), HasSubstr("the second list to be of truth"));
  EXPECT_THAT(ErrorOf(head + "]\x88"
                             "a]\x88"
                             "a\x86."),
              HasSubstr("the first list to be of pictures"));
  EXPECT_THAT(ErrorOf(head + "]U\x01xa]\x88"
                             "a\x86."),
              HasSubstr("two pictures for each of 1 pairs, got 1"));
  EXPECT_THAT(ErrorOf(head + "]]\x86."), HasSubstr("two pictures for each of 0 pairs, got 0"));
}

}  // namespace
}  // namespace sluice
