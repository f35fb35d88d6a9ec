#include "framework/data/delimited_text.h"

#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Each row as "line: field|field", or the error.
std::vector<std::string> Rows(absl::string_view text, const DelimitedOptions& options = {}) {
  const auto table = DelimitedText::Open("t.csv", text, options);
  if (!table.ok()) return {std::string(table.status().message())};
  std::vector<std::string> rows;
  const absl::Status read =
      table->ForEachRow([&](int64_t line, absl::Span<const absl::string_view> fields) {
        rows.push_back(absl::StrCat(line, ": ", absl::StrJoin(fields, "|")));
        return absl::OkStatus();
      });
  if (!read.ok()) rows.push_back(std::string(read.message()));
  return rows;
}

TEST(DelimitedTextTest, RowsBehindTheNames) {
  EXPECT_THAT(Rows("a,b\n1,2\n\n,\n3,4"), ElementsAre("2: 1|2", "4: |", "5: 3|4"));
  EXPECT_THAT(Rows("a,b\r\n1,2\r\n\r\n3,\r\n"), ElementsAre("2: 1|2", "4: 3|"));
  EXPECT_THAT(Rows("a\n"), ElementsAre());
  const auto table = DelimitedText::Open("t.csv", "carrier,flight\nUA,1\n", {});
  ASSERT_TRUE(table.ok());
  EXPECT_THAT(table->names(), ElementsAre("carrier", "flight"));
  EXPECT_THAT(*table->Columns({"flight", "carrier"}), ElementsAre(1, 0));
  EXPECT_EQ(table->Column("fligth").status().message(),
            "t.csv: expected a column fligth, found none; did you mean \"flight\"?");
}

TEST(DelimitedTextTest, QuotesHoldWhatParts) {
  EXPECT_THAT(Rows("a,b\n\"1,5\",\"say \"\"no\"\"\"\n\"two\nlines\",x\n3,\"\"\n"),
              ElementsAre("2: 1,5|say \"no\"", "3: two\nlines|x", "5: 3|"));
  EXPECT_THAT(Rows("a\tb\n\"1\t2\"x\n", {.delimiter = '\t', .quotes = false}),
              ElementsAre("2: \"1|2\"x"));
}

TEST(DelimitedTextTest, ClickLogsHaveNoNames) {
  EXPECT_THAT(Rows("1\t\t68fd1e64\n0\t5\t\n", {.delimiter = '\t', .quotes = false, .names = false}),
              ElementsAre("1: 1||68fd1e64", "2: 0|5|"));
}

TEST(DelimitedTextTest, ErrorsNameTheLine) {
  EXPECT_THAT(Rows(""), ElementsAre("t.csv: expected rows, got none"));
  EXPECT_THAT(Rows("a,a\n"), ElementsAre("t.csv:1: expected a name once, got a twice"));
  EXPECT_THAT(Rows("a,b\n1,2\n3\n"), ElementsAre("2: 1|2", "t.csv:3: expected 2 fields, got 1"));
  EXPECT_THAT(Rows("a,b\n1,\"2\n3\n"),
              ElementsAre("t.csv:2: expected a closing quote, got the end of the text"));
  EXPECT_THAT(Rows("a,b\n\"1\n\"2,3\n"),
              ElementsAre(HasSubstr("t.csv:3: expected the end of a field behind its closing")));
  const auto table = DelimitedText::Open("t.csv", "a\n1\n", {});
  EXPECT_EQ(table
                ->ForEachRow([](int64_t, absl::Span<const absl::string_view>) {
                  return absl::DataLossError("no");
                })
                .message(),
            "t.csv:2: no");
}

}  // namespace
}  // namespace sluice
