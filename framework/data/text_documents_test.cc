#include "framework/data/text_documents.h"

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/data/pack_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Written(const std::string& name, const std::string& bytes) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

TEST(TextDocumentsTest, BlankLinesPartDocuments) {
  EXPECT_THAT(DocumentsBetweenBlankLines("\n\na\nb  \n \t\n\nc\r\n\r\nd"),
              ElementsAre("a\nb\n", "c\n", "d\n"));
  EXPECT_THAT(DocumentsBetweenBlankLines(" \n\n"), ElementsAre());
}

TEST(TextDocumentsTest, HoldsOutWholeDocumentsByTheirBytes) {
  std::vector<std::string> documents;
  for (int i = 0; i < 1000; ++i) documents.push_back(absl::StrCat("document ", i));
  const TextDocuments one = HoldOutDocuments(documents);
  EXPECT_EQ(one.training.size() + one.held_out.size(), 1000);
  EXPECT_NEAR(static_cast<double>(one.held_out.size()), 100, 30);
  // One that is there twice is on one side, and what stands beside it does not count.
  std::vector<std::string> twice(documents.rbegin(), documents.rend());
  twice.insert(twice.end(), documents.begin(), documents.end());
  const TextDocuments other = HoldOutDocuments(twice);
  EXPECT_EQ(other.held_out.size(), 2 * one.held_out.size());
  EXPECT_THAT(other.held_out, ::testing::IsSupersetOf(one.held_out));
}

TEST(TextDocumentsTest, NoSideIsEmpty) {
  for (const int count : {2, 3, 5, 25}) {
    const TextDocuments same = HoldOutDocuments(std::vector<std::string>(count, "the same"));
    EXPECT_EQ(same.held_out.size(), count < 20 ? 1 : 2) << count;
    EXPECT_EQ(same.training.size(), count - same.held_out.size());
  }
}

TEST(TextDocumentsTest, ReadsTextAndDumpsPlainAndPacked) {
  const std::string dump =
      "<mediawiki><page><title>A</title><text>one [[a|b]]</text></page>"
      "<page><title>B</title><text>two</text></page>";
  const std::string text = "one b\n\ntwo\n";
  for (const std::string& bytes : {dump, text, Gzipped(dump), Gzipped(text)}) {
    const auto documents = ReadTextDocuments(Written("documents", bytes));
    ASSERT_TRUE(documents.ok()) << documents.status();
    EXPECT_THAT(documents->training, ElementsAre("one b\n"));
    EXPECT_THAT(documents->held_out, ElementsAre("two\n"));
  }
}

TEST(TextDocumentsTest, NamesWhatIsWrong) {
  const auto error = [](const std::string& path) {
    return std::string(ReadTextDocuments(path).status().message());
  };
  EXPECT_THAT(error("/no/text"), HasSubstr("/no/text"));
  EXPECT_THAT(
      error(Written("single", "a\nb\n")),
      HasSubstr("single: expected documents with blank lines between them, one to learn from "
                "and one to hold out, got 1"));
  const std::string packed = Gzipped("one\n\ntwo\n");
  EXPECT_THAT(error(Written("cut.gz", packed.substr(0, packed.size() - 9))),
              HasSubstr("cut.gz: the gzipped file is cut short"));
}

}  // namespace
}  // namespace sluice
