#include "framework/base/text.h"

#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using Kind = TextScanner::Kind;
using ::testing::ElementsAre;

std::vector<std::string> Tokens(absl::string_view text, absl::string_view identifier_extra = "") {
  TextScanner scanner(text, "", identifier_extra);
  std::vector<std::string> tokens;
  while (!scanner.AtEnd() && scanner.Peek().kind != Kind::kBad) {
    tokens.push_back(std::string(scanner.Next().text));
  }
  return tokens;
}

TEST(TextScannerTest, Tokens) {
  EXPECT_THAT(Tokens("data=4 P(sum)->S0 # rest\n a::b ...mk,kn"),
              ElementsAre("data", "=", "4", "P", "(", "sum", ")", "->", "S0", "a", "::", "b", "...",
                          "mk", ",", "kn"));
  EXPECT_THAT(Tokens("block0/attn.w", "./"), ElementsAre("block0/attn.w"));
  EXPECT_THAT(Tokens("-1 a-1 3-1 (x)-1 -.5e-3 1e9 2.e 7... -inf"),
              ElementsAre("-1", "a", "-", "1", "3", "-", "1", "(", "x", ")", "-", "1", "-.5e-3",
                          "1e9", "2.", "e", "7", "...", "-inf"));
  EXPECT_THAT(Tokens(""), ElementsAre());
  EXPECT_THAT(Tokens(" # only a comment"), ElementsAre());
}

TEST(TextScannerTest, TypedReads) {
  TextScanner scanner("name 42 18446744073709551615 -1.5 3 nan -inf inf \"a\\\"b\\x41\\n\" ;");
  EXPECT_EQ(*scanner.Identifier("a name"), "name");
  EXPECT_EQ(*scanner.Integer("n"), 42);
  EXPECT_EQ(*scanner.Unsigned("seed"), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(*scanner.Number("x"), -1.5);
  EXPECT_EQ(*scanner.Number("x"), 3);
  EXPECT_TRUE(std::isnan(*scanner.Number("x")));
  EXPECT_EQ(*scanner.Number("x"), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(*scanner.Number("x"), std::numeric_limits<double>::infinity());
  EXPECT_EQ(*scanner.String("text"), "a\"bA\n");
  EXPECT_FALSE(scanner.Accept(","));
  EXPECT_TRUE(scanner.At(";"));
  EXPECT_TRUE(scanner.Accept(";"));
  EXPECT_TRUE(scanner.AtEnd());
}

TEST(TextScannerTest, KnowsLinesAndColumns) {
  TextScanner scanner("a b\n  c # x\n\nd");
  EXPECT_TRUE(scanner.Peek().first_on_line);
  scanner.Next();
  EXPECT_FALSE(scanner.Peek().first_on_line);
  scanner.Next();
  const TextScanner::Token c = scanner.Next();
  EXPECT_TRUE(c.first_on_line);
  EXPECT_EQ(scanner.Peek().line, 4);
  EXPECT_EQ(scanner.ErrorAt(c, "here").message(), "2:3: here");
}

TEST(TextScannerTest, ErrorsSayPlaceExpectedAndGot) {
  auto message = [](absl::string_view text, auto read) {
    TextScanner scanner(text, "plan.txt");
    return std::string(read(scanner).message());
  };
  auto expect_comma = [](TextScanner& s) { return s.Expect(","); };
  auto integer = [](TextScanner& s) { return s.Integer("a quota").status(); };
  EXPECT_EQ(message("\n  quota", expect_comma), "plan.txt:2:3: expected \",\", got \"quota\"");
  EXPECT_EQ(message("", expect_comma), "plan.txt:1:1: expected \",\", got the end of the text");
  EXPECT_EQ(message("1.5", integer), "plan.txt:1:1: expected a quota, got \"1.5\"");
  EXPECT_EQ(message("99999999999999999999", integer),
            "plan.txt:1:1: a quota: 99999999999999999999 does not fit in 64 bits");
  EXPECT_EQ(message("-1", [](TextScanner& s) { return s.Unsigned("a seed").status(); }),
            "plan.txt:1:1: a seed: -1 is negative or does not fit in 64 bits");
}

TEST(TextScannerTest, DamagedTextIsRefusedNotRead) {
  for (const char* text : {"\"abc", "\"a\nb\"", "\"\\q\"", "\"\\x4", "\"\\", "\x01", "\xff\xfe"}) {
    TextScanner scanner(text);
    EXPECT_EQ(scanner.Peek().kind, Kind::kBad) << Quoted(text);
    for (int i = 0; i < 3; ++i) scanner.Next();
    EXPECT_FALSE(scanner.AtEnd()) << "an error must not look like the end";
    EXPECT_FALSE(scanner.Expect("x").ok());
    EXPECT_FALSE(scanner.String("a string").ok());
  }
  TextScanner zero(absl::string_view("a\0b", 3));
  EXPECT_TRUE(zero.Accept("a"));
  EXPECT_EQ(zero.Expect("b").message(), "1:2: a byte that is no text: 0x00");
}

TEST(TextTest, QuotedAndNumbersReadBack) {
  for (const std::string text : {"", "plain", "q\"\\\n\t\r\x01\x7f", "\xc3\xa4"}) {
    const std::string quoted = Quoted(text);
    TextScanner scanner(quoted);
    EXPECT_EQ(*scanner.String("a string"), text);
  }
  for (const double number : {0.1, -1.0 / 3, 1e300, 5e-324, 3.0, 0.0, HUGE_VAL, -HUGE_VAL}) {
    const std::string written = NumberText(number);
    TextScanner scanner(written);
    EXPECT_EQ(*scanner.Number("a number"), number) << written;
    EXPECT_TRUE(scanner.AtEnd());
  }
  EXPECT_EQ(NumberText(0.1), "0.1");
  EXPECT_EQ(NumberText(NAN), "nan");
}

TEST(TextTest, NearestNameFindsWhatWasMeant) {
  const std::vector<std::string> flags = {"steps", "seed", "hidden", "heads", "micro_batches"};
  EXPECT_EQ(NearestName("step", flags), "steps");
  EXPECT_EQ(NearestName("hiden", flags), "hidden");
  EXPECT_EQ(NearestName("sede", flags), "seed");
  EXPECT_EQ(NearestName("microbatches", flags), "micro_batches");
  EXPECT_EQ(NearestName("STEPS", flags), "steps");
  EXPECT_EQ(NearestName("zebra", flags), "");
  EXPECT_EQ(NearestName("", flags), "");
  EXPECT_EQ(DidYouMean("head", flags), "; did you mean \"heads\"?");
  EXPECT_EQ(DidYouMean("zebra", flags), "");
  EXPECT_EQ(NearestName("a", std::vector<std::string>{"A", "a"}), "a");
}

TEST(Utf8Test, TakesCharactersAndNothingElse) {
  for (const char* good : {"a", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf",
                           "\xee\x80\x80", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(Utf8Length(std::string(good) + "z"), std::string(good).size()) << good;
    EXPECT_TRUE(IsUtf8(std::string("x") + good));
  }
  for (const char* bad :
       {"\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xe2\x82", "\xe2\x82x"}) {
    EXPECT_EQ(Utf8Length(bad), 0u);
    EXPECT_FALSE(IsUtf8(std::string("x") + bad));
  }
  EXPECT_EQ(Utf8Length(""), 0u);
  EXPECT_TRUE(IsUtf8(""));
}

}  // namespace
}  // namespace sluice
