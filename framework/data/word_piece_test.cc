#include "framework/data/word_piece.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/printable.h"
#include "framework/data/basic_tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kFolder[] = "framework/data/testdata/word_piece/";
// The options of a cased vocabulary.
const WordPieceOptions kCased = {.text = {.lower_case = false, .strip_accents = false}};
constexpr absl::string_view kSpecial = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";

WordPiece OfPieces(absl::string_view pieces, const WordPieceOptions& options = {}) {
  auto result = WordPiece::Parse("pieces", absl::StrCat(kSpecial, pieces), options);
  EXPECT_TRUE(result.ok()) << result.status();
  return *std::move(result);
}

std::string Encoded(const WordPiece& vocabulary, absl::string_view text) {
  std::vector<int32_t> ids;
  vocabulary.Encode(text, &ids);
  return absl::StrJoin(
      ids, " ", [&vocabulary](std::string* to, int32_t id) { to->append(vocabulary.piece(id)); });
}

std::vector<TextRange> Ranges(const WordPiece& vocabulary, absl::string_view text) {
  std::vector<int32_t> ids;
  std::vector<TextRange> ranges;
  vocabulary.Encode(text, &ids, &ranges);
  EXPECT_EQ(ids.size(), ranges.size());
  return ranges;
}

// testdata/tokenizers_golden.py makes it: uncased, cased, and each of the three options by itself.
TEST(WordPieceTest, EqualsHuggingFace) {
  std::ifstream file(absl::StrCat(kFolder, "golden.json"));
  const auto cases = nlohmann::json::parse(file);
  int tried = 0;
  for (const std::vector<bool>& of : std::vector<std::vector<bool>>{{true, true, true},
                                                                    {false, false, true},
                                                                    {true, false, true},
                                                                    {false, true, true},
                                                                    {true, true, false},
                                                                    {false, false, false}}) {
    WordPieceOptions options;
    options.text = {.lower_case = of[0], .strip_accents = of[1], .split_chinese = of[2]};
    const auto vocabulary = WordPiece::Read(absl::StrCat(kFolder, "vocab.txt"), options);
    ASSERT_TRUE(vocabulary.ok()) << vocabulary.status();
    for (const auto& one : cases) {
      if (one["normalization"].get<std::vector<bool>>() != of) continue;
      ++tried;
      const std::string text = one["text"];
      SCOPED_TRACE(absl::StrCat(of[0] ? "lower case" : "cased", of[1] ? "" : ", accents",
                                of[2] ? ": " : ", Chinese whole: ", Printable(text)));
      std::vector<int32_t> ids;
      std::vector<TextRange> ranges;
      vocabulary->Encode(text, &ids, &ranges);
      EXPECT_THAT(ids, ::testing::ElementsAreArray(one["ids"].get<std::vector<int32_t>>()));
      std::vector<std::vector<int64_t>> got;
      for (const TextRange& range : ranges) got.push_back({range.begin, range.end});
      EXPECT_EQ(got, one["ranges"].get<std::vector<std::vector<int64_t>>>());
    }
  }
  EXPECT_EQ(tried, cases.size());
  EXPECT_GT(tried, 130);
}

TEST(WordPieceTest, TakesTheLongestPieceFirst) {
  const WordPiece vocabulary = OfPieces("un\n##aff\n##able\nunaff\n##ab\n##a\n");
  EXPECT_EQ(Encoded(vocabulary, "unaffable"), "unaff ##able");
  // Not un ##aff ##ab, which would come to an end: what was taken is not given back.
  EXPECT_EQ(Encoded(vocabulary, "unaffa unab unaffx"), "unaff ##a un ##ab [UNK]");
}

TEST(WordPieceTest, BytesThatAreNoUtf8AreDropped) {
  const WordPiece vocabulary = OfPieces("ab\nc\n##c\n\xc3\xa4\n", kCased);
  EXPECT_EQ(Encoded(vocabulary,
                    "a\xff"
                    "b \xc3 c\xe4\xbd"
                    "c"),
            "ab c ##c");
  EXPECT_THAT(Ranges(vocabulary,
                     "a\xff"
                     "b \xc3 c"),
              ElementsAre(TextRange{0, 3}, TextRange{6, 7}));
  EXPECT_EQ(Encoded(vocabulary, "\xc3\xa4 \xf8\x88\xed\xa0\x80"), "\xc3\xa4");
}

TEST(WordPieceTest, AWordLongerThanTheLimitIsUnknown) {
  EXPECT_EQ(Encoded(OfPieces("a\n##a\n", {.longest_word = 3}), "aaa aaaa aa"),
            "a ##a ##a [UNK] a ##a");
  EXPECT_THAT(Ranges(OfPieces("a\n##a\n", {.longest_word = 3}), "a aaaa aa"),
              ElementsAre(TextRange{0, 1}, TextRange{2, 6}, TextRange{7, 8}, TextRange{8, 9}));
}

TEST(WordPieceTest, AppendsToWhatIsThere) {
  const WordPiece vocabulary = OfPieces("a\nb\n");
  std::vector<int32_t> ids = {7};
  std::vector<TextRange> ranges;
  vocabulary.Encode("a x b", &ids, &ranges);
  EXPECT_THAT(ids, ElementsAre(7, 5, vocabulary.unknown(), 6));
  EXPECT_THAT(ranges, ElementsAre(TextRange{0, 1}, TextRange{2, 3}, TextRange{4, 5}));
}

// U+1D16D comes behind U+302E, but nothing moves past a letter, or past a mark of class 0 that is
// dropped.
TEST(WordPieceTest, PutsMarksInCanonicalOrder) {
  const std::string low = "\u302e", high = "\U0001d16d";
  const WordPiece vocabulary = OfPieces(absl::StrCat("a", low, high, "\na", high, "b", low, "\n"));
  EXPECT_EQ(Encoded(vocabulary, absl::StrCat("a", high, low)), absl::StrCat("a", low, high));
  EXPECT_EQ(Encoded(vocabulary, absl::StrCat("a", low, high)), absl::StrCat("a", low, high));
  EXPECT_EQ(Encoded(vocabulary, absl::StrCat("a", high, "b", low)),
            absl::StrCat("a", high, "b", low));
  EXPECT_THAT(Ranges(vocabulary, absl::StrCat("a", high, low)), ElementsAre(TextRange{0, 8}));
  EXPECT_EQ(Encoded(vocabulary, absl::StrCat("a", high, "\u0901", low)), "[UNK]");
}

// Thousands of marks on one letter, in an order that is the opposite of the canonical one.
TEST(WordPieceTest, AFileMadeToHarmIsNotSortedForHours) {
  std::string text = "a";
  for (int i = 0; i < 1000000; ++i) text += i % 2 == 0 ? "\xe3\x80\xae" : "\xf0\x9d\x85\xad";
  EXPECT_EQ(Encoded(OfPieces("a\n"), text), "[UNK]");
}

TEST(WordPieceTest, NamesWhatIsWrongWithAVocabulary) {
  const auto error = [](const std::string& text) {
    return std::string(WordPiece::Parse("v.txt", text).status().message());
  };
  EXPECT_EQ(error("[PAD]\n[CLS]\n[SEP]\n[MASK]\n"), "v.txt: expected a piece [UNK], got 4 others");
  EXPECT_EQ(error(""), "v.txt: expected a piece [PAD], got 0 others");
  EXPECT_EQ(error(absl::StrCat(kSpecial, "a\nb\na\n")),
            "v.txt, line 8: expected each piece once, got \"a\" as in line 6");
  EXPECT_EQ(error(absl::StrCat(kSpecial, "a\n\nb\n")),
            "v.txt, line 7: expected a piece, got a line without one");
  EXPECT_EQ(error(absl::StrCat(kSpecial, "\x01\xff\n")),
            "v.txt, line 6: expected a piece in UTF-8, got \"\\x01\\xff\"");
  EXPECT_THAT(std::string(WordPiece::Read("/no/vocab.txt").status().message()),
              HasSubstr("/no/vocab.txt"));
  // Ends of line as Windows has them, and none at the end.
  const auto windows = WordPiece::Parse("v", "[PAD]\r\n[UNK]\r\n[CLS]\r\n[SEP]\r\n[MASK]\r\nab");
  ASSERT_TRUE(windows.ok()) << windows.status();
  EXPECT_EQ(Encoded(*windows, "ab"), "ab");
}

TEST(WordPieceTest, SpecialPiecesMayHaveOtherNames) {
  WordPieceOptions options;
  options.special = {"<pad>", "<unk>", "<s>", "</s>", "<mask>"};
  const auto vocabulary =
      WordPiece::Parse("v.txt", "<s>\na\n</s>\n<mask>\n<pad>\n<unk>\n", options);
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status();
  EXPECT_EQ(vocabulary->classify(), 0);
  EXPECT_EQ(vocabulary->separator(), 2);
  EXPECT_EQ(vocabulary->mask(), 3);
  EXPECT_EQ(vocabulary->padding(), 4);
  EXPECT_EQ(Encoded(*vocabulary, "a b"), "a <unk>");
  EXPECT_EQ(WordPiece::Parse("v.txt", kSpecial, options).status().message(),
            "v.txt: expected a piece <pad>, got 5 others");
  EXPECT_THAT(*LearnWordPieces({"ab ab"}, 16, options),
              ::testing::StartsWith("<pad>\n<unk>\n<s>\n</s>\n<mask>\na\n"));
}

TEST(WordPieceTest, KnowsWhatGoesOn) {
  const WordPiece vocabulary = OfPieces("a\n##a\n##\n#\n###\n");
  EXPECT_EQ(vocabulary.size(), 10);
  EXPECT_FALSE(vocabulary.GoesOn(5));
  EXPECT_TRUE(vocabulary.GoesOn(6));
  EXPECT_FALSE(vocabulary.GoesOn(7));  // a word of two marks
  EXPECT_TRUE(vocabulary.GoesOn(9));
  EXPECT_TRUE(vocabulary.IsSpecial(4));
  EXPECT_FALSE(vocabulary.IsSpecial(5));
  EXPECT_NE(vocabulary.digest(), OfPieces("a\n##a\n##\n#\n###\n", kCased).digest());
  EXPECT_NE(vocabulary.digest(), OfPieces("a\n##a\n##\n###\n#\n").digest());
}

std::string Learned(absl::string_view text, int64_t size, const WordPieceOptions& options = {}) {
  const auto vocabulary = LearnWordPieces({text}, size, options);
  EXPECT_TRUE(vocabulary.ok()) << vocabulary.status();
  return vocabulary.value_or("");
}

TEST(LearnWordPiecesTest, JoinsThePairThatOccursMostOften) {
  // ab occurs 5 times, ##b ##c too, but came later; then ab ##c 3 times, and x ##b before ##b ##c.
  EXPECT_EQ(Learned("ab ab abc abc abc xbc xbc", 40),
            absl::StrCat(kSpecial, "a\nx\n##b\n##c\nab\nabc\nxb\nxbc\n"));
  // What occurs once is not learned.
  EXPECT_EQ(Learned("ab ac", 40), absl::StrCat(kSpecial, "a\n##b\n##c\n"));
}

TEST(LearnWordPiecesTest, IsAFunctionOfTheWordsAlone) {
  const std::string golden = [] {
    std::ifstream file(absl::StrCat(kFolder, "golden.json"));
    return std::string(std::istreambuf_iterator<char>(file), {});
  }();
  const auto half = golden.size() / 2 + golden.substr(golden.size() / 2).find(' ');
  const absl::string_view a = absl::string_view(golden).substr(0, half),
                          b = absl::string_view(golden).substr(half);
  const auto whole = LearnWordPieces({golden}, 400), swapped = LearnWordPieces({b, a}, 400);
  ASSERT_TRUE(whole.ok() && swapped.ok());
  EXPECT_EQ(*whole, *swapped);
  const auto vocabulary = WordPiece::Parse("learned", *whole);
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status();
  EXPECT_EQ(vocabulary->size(), 400);
  std::vector<int32_t> ids;
  vocabulary->Encode(golden, &ids);
  int64_t characters = 0;
  for (WordReader reader(golden); reader.Next();) characters += reader.code_points();
  EXPECT_LT(3 * static_cast<int64_t>(ids.size()), 2 * characters);
  EXPECT_LT(100 * std::ranges::count(ids, vocabulary->unknown()), characters);
}

TEST(LearnWordPiecesTest, RareCharactersAreLeftOut) {
  std::string text;
  for (char c = 'a'; c <= 'j'; ++c) {
    for (int i = c; i < 'k'; ++i) absl::StrAppend(&text, std::string(2, c), " ");
  }
  const std::string vocabulary = Learned(text, 40);  // of 5 characters
  EXPECT_THAT(vocabulary, HasSubstr("\ne\n"));
  EXPECT_THAT(vocabulary, ::testing::Not(HasSubstr("\nf\n")));
}

TEST(LearnWordPiecesTest, SaysWhatItNeeds) {
  EXPECT_EQ(LearnWordPieces({"  "}, 100).status().message(),
            "a vocabulary of 100 pieces: expected words to learn it from, got none");
  EXPECT_EQ(LearnWordPieces({"a"}, 7).status().message(),
            "a vocabulary: expected a size of at least 8, got 7");
}

}  // namespace
}  // namespace sluice
