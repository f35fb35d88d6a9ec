#include "framework/data/labelled_text.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "framework/data/bag_of_words.h"
#include "framework/data/batch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kOrange[] = "Category\tText\nd\tstring\nclass\t\n";

// A folder of its own, so that no test finds another's files beside its own.
std::string Written(const std::string& folder, const std::string& name, const std::string& bytes) {
  const std::string root = absl::StrCat(::testing::TempDir(), "/labelled_", folder);
  std::filesystem::create_directories(root);
  const std::string path = absl::StrCat(root, "/", name);
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

TextClasses Read(const std::string& path) {
  auto classes = ReadTextClasses(path);
  EXPECT_TRUE(classes.ok()) << classes.status();
  return classes.ok() ? *std::move(classes) : TextClasses();
}

TEST(LabelledTextTest, ReadsTablesOfOrangeWithTheirTestPart) {
  const std::string path =
      Written("orange", "news-train.tab",
              absl::StrCat(kOrange, "sport\ta  ball\ntrade\tgold\ttin\n\nsport\t\n"));
  Written("orange", "news-test.tab", absl::StrCat(kOrange, "trade\tsilver"));
  const TextClasses classes = Read(path);
  EXPECT_THAT(classes.names, ElementsAre("sport", "trade"));
  EXPECT_THAT(classes.training.texts, ElementsAre("a  ball", "gold\ttin", ""));
  EXPECT_THAT(classes.training.labels, ElementsAre(0, 1, 0));
  EXPECT_THAT(classes.held_out.texts, ElementsAre("silver"));
  EXPECT_THAT(classes.held_out.labels, ElementsAre(1));
}

TEST(LabelledTextTest, OfOneFileEveryTenthTextIsHeldOut) {
  std::string bytes;
  for (int i = 0; i < 500; ++i)
    absl::StrAppend(&bytes, i % 2 == 0 ? "b" : "a", "\ttext ", i, "\r\n");
  const TextClasses classes = Read(Written("one", "texts.txt", bytes));
  EXPECT_EQ(classes.training.texts.size() + classes.held_out.texts.size(), 500);
  EXPECT_NEAR(static_cast<double>(classes.held_out.texts.size()), 50, 25);
  std::set<std::string> all(classes.training.texts.begin(), classes.training.texts.end());
  all.insert(classes.held_out.texts.begin(), classes.held_out.texts.end());
  EXPECT_EQ(all.size(), 500);
  EXPECT_TRUE(all.contains("text 17"));
  for (size_t i = 0; i < classes.held_out.texts.size(); ++i) {
    EXPECT_EQ(classes.held_out.labels[i],
              std::stoi(classes.held_out.texts[i].substr(5)) % 2 == 0 ? 1 : 0);
  }
}

TEST(LabelledTextTest, NamesWhatIsWrongWithAFile) {
  const auto error = [](const std::string& name, const std::string& bytes) {
    return std::string(ReadTextClasses(Written("wrong", name, bytes)).status().message());
  };
  EXPECT_THAT(error("a.tab", absl::StrCat(kOrange, "a\tb\nno label\n")),
              HasSubstr("a.tab, line 5: expected label TAB text, got \"no label\""));
  EXPECT_THAT(error("b.txt", "a\tb\n \tc\n"), HasSubstr("b.txt, line 2: expected label TAB text"));
  EXPECT_THAT(error("c.txt", "a\tb\na\tc\n"),
              HasSubstr("at least two classes, and some to hold out"));
  EXPECT_THAT(error("g.txt", "sport\tb\n\xe9t\xe9\t\xe9t\xe9\n"),
              HasSubstr("g.txt, line 2: expected a label in UTF-8, got \"\\xe9t\\xe9\"; iconv -f "
                        "ISO-8859-1 -t UTF-8 converts the file if it is in Latin-1"));
  std::string of_one;
  for (int i = 0; i < 99; ++i) absl::StrAppend(&of_one, "a\ttext ", i, "\n");
  EXPECT_THAT(error("f.txt", of_one), HasSubstr("of 1 and "));
  EXPECT_THAT(error("d.txt", "a\tb\nb\tc\n"), HasSubstr("got 2 of 2 and 0"));
  Written("wrong", "e-test.tab", absl::StrCat(kOrange, "a\tb\naa\td\n"));
  EXPECT_THAT(
      error("e-train.tab", absl::StrCat(kOrange, "a\tb\nb\td\n")),
      HasSubstr(
          "e-test.tab, line 5: expected one of the 2 classes that are trained on, got \"aa\""));
  EXPECT_THAT(std::string(ReadTextClasses("/no/texts.tab").status().message()),
              HasSubstr("/no/texts.tab"));
}

TEST(LabelledTextTest, ASampleIsATextAndItsClass) {
  const WordPiece vocabulary =
      *WordPiece::Parse("v", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\n");
  const auto data =
      LabelledText::Create("texts", {{"a b", "", "a b c a b", "x"}, {1, 0, 2, 1}}, vocabulary, 6);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->num_cut(), 1);
  Batch batch(*data, 4);
  ASSERT_TRUE(ReadBatch(*data, {SampleOrder::kSpread, 0, 4}, 0, &batch).ok());
  EXPECT_THAT(batch.names, ElementsAre("tokens", "segments", "length", "label"));
  const auto values = [&batch](int field) {
    const HostTensor& tensor = batch.tensors[field];
    return std::vector<int32_t>(tensor.data<int32_t>(),
                                tensor.data<int32_t>() + tensor.shape.NumElements());
  };
  EXPECT_THAT(values(0),
              ElementsAre(2, 5, 6, 3, 0, 0, 2, 3, 0, 0, 0, 0, 2, 5, 6, 7, 5, 3, 2, 1, 3, 0, 0, 0));
  EXPECT_THAT(values(1), ::testing::Each(0));
  EXPECT_THAT(values(2), ElementsAre(4, 2, 6, 3));
  EXPECT_THAT(values(3), ElementsAre(1, 0, 2, 1));
  std::vector<int32_t> part(4);
  ASSERT_TRUE(
      data->Fill(0, {2, 0}, 0, Box{{2, 4}}, reinterpret_cast<std::byte*>(part.data())).ok());
  EXPECT_THAT(part, ElementsAre(6, 7, 6, 3));
  std::vector<int32_t> segments(5, 9);
  ASSERT_TRUE(
      data->Fill(1, {2, 0}, 0, Box{{2, 4}}, reinterpret_cast<std::byte*>(segments.data())).ok());
  EXPECT_THAT(segments, ElementsAre(0, 0, 0, 0, 9));
}

TEST(LabelledTextTest, KnowsItsTextsAgainAndSaysWhatItNeeds) {
  const WordPiece vocabulary = *WordPiece::Parse("v", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n");
  const auto identity = [&vocabulary](const LabelledTexts& texts, int64_t length) {
    return LabelledText::Create("texts", texts, vocabulary, length)->identity();
  };
  EXPECT_EQ(identity({{"a", "b"}, {0, 1}}, 8), identity({{"a", "b"}, {0, 1}}, 8));
  EXPECT_FALSE(identity({{"a", "b"}, {0, 1}}, 8) == identity({{"a", "b"}, {1, 0}}, 8));
  EXPECT_FALSE(identity({{"a", "b"}, {0, 1}}, 8) == identity({{"b", "a"}, {0, 1}}, 8));
  EXPECT_FALSE(identity({{"a", "b"}, {0, 1}}, 8) == identity({{"a", "b"}, {0, 1}}, 9));
  EXPECT_EQ(LabelledText::Create("data: x", {{"a"}, {0}}, vocabulary, 2).status().message(),
            "data: x: expected samples of at least 3 tokens, got 2");
  EXPECT_EQ(LabelledText::Create("data: x", {}, vocabulary, 9).status().message(),
            "data: x: expected texts and a label for each, got 0 and 0");
}

TEST(BagOfWordsTest, TheMajorityIsThatOfWhatIsTrainedOn) {
  TextClasses classes;
  classes.names = {"a", "b", "c"};
  classes.training.labels = {0, 1, 1, 2, 2};
  classes.held_out.labels = {0, 1, 1, 2, 2, 2, 2, 2};
  EXPECT_DOUBLE_EQ(MajorityAccuracy(classes), 0.25);
}

// Two topics share most words; what is held out is in capitals.
TEST(BagOfWordsTest, WordsThatTellDecide) {
  TextClasses classes;
  classes.names = {"ball", "gold"};
  for (int i = 0; i < 60; ++i) {
    const bool gold = i % 3 == 0;
    std::string text = "the of and to said in ";
    for (int j = 0; j < 4; ++j) absl::StrAppend(&text, "word", (i * 7 + j * 5) % 13, " ");
    absl::StrAppend(&text, gold ? "mine" : "team", " ", gold ? "ounce" : "goal");
    if (i % 5 == 0) absl::AsciiStrToUpper(&text);
    LabelledTexts& part = i % 5 == 0 ? classes.held_out : classes.training;
    part.texts.push_back(text);
    part.labels.push_back(gold ? 1 : 0);
  }
  EXPECT_DOUBLE_EQ(BagOfWordsAccuracy(classes), 1);
  // A class that nothing tells is guessed.
  for (std::string& text : classes.held_out.texts) text = "nothing known";
  EXPECT_DOUBLE_EQ(BagOfWordsAccuracy(classes), MajorityAccuracy(classes));
}

// Three classes of which the first is half of all, words that occur in each, more than once, in
// capitals: scikit-learn 1.9 with TfidfVectorizer() and LinearSVC() names 385 of 500 right.
TEST(BagOfWordsTest, IsAsGoodAsScikitLearn) {
  uint64_t state = 1;
  const auto draw = [&state](uint64_t limit) {
    state = (state * 1103515245 + 12345) % (uint64_t{1} << 31);
    return static_cast<int>((state >> 8) % limit);
  };
  TextClasses classes;
  classes.names = {"a", "b", "c"};
  for (int i = 0; i < 1500; ++i) {
    const int label = std::vector<int>({0, 0, 0, 1, 2, 2})[draw(6)];
    std::string text;
    for (int words = 3 + draw(8); words > 0; --words) {
      const int topic = draw(10) < 5 ? label : draw(3);
      std::string word = draw(3) > 0 ? absl::StrCat("topic", topic, "n", draw(40))
                                     : absl::StrCat("common", draw(9));
      if (draw(4) == 0) absl::AsciiStrToUpper(&word);
      for (int times = 1 + draw(3); times > 0; --times) absl::StrAppend(&text, word, " ");
    }
    LabelledTexts& part = i % 3 == 0 ? classes.held_out : classes.training;
    part.texts.push_back(text);
    part.labels.push_back(label);
  }
  EXPECT_DOUBLE_EQ(MajorityAccuracy(classes), 0.544);
  EXPECT_NEAR(500 * BagOfWordsAccuracy(classes), 385, 1.5);
}

}  // namespace
}  // namespace sluice
