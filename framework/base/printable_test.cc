#include "framework/base/printable.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(PrintableTest, KeepsTextAndEscapesTheRest) {
  EXPECT_EQ(Printable("a\tb\n"), "a\tb\n");
  EXPECT_EQ(Printable("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
  EXPECT_EQ(Printable("\x1b[2J\x7f\xc3"), "\\x1b[2J\\x7f\\xc3");
  EXPECT_EQ(Printable("\xed\xa0\xbd\xed\xb8\x80!"), "\\xed\\xa0\\xbd\\xed\\xb8\\x80!");
  EXPECT_EQ(Printable("\xf0\x9f\x98\x80"), "\xf0\x9f\x98\x80");
  EXPECT_EQ(Printable("\xe0\x80\xaf\xf4\x90\x80\x80"), "\\xe0\\x80\\xaf\\xf4\\x90\\x80\\x80");
  // "\x9b" as a character begins a command to a terminal, just as ESC [ does.
  EXPECT_EQ(Printable("\xc2\x9b[2J\xc2\xa0"), "\\xc2\\x9b[2J\xc2\xa0");
}

TEST(PrintableTest, AnErrorStaysOnItsLine) {
  EXPECT_EQ(PrintableLine("evil\x1b[2J\n../x"), "evil\\x1b[2J ../x");
}

}  // namespace
}  // namespace sluice
