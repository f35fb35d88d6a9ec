#include "framework/data/delimited_text.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
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

TEST(DelimitedTextTest, AStreamOfLinesIsText) {
  const auto first = [](absl::string_view text) {
    PackedStream stream(text);
    std::string field;
    const absl::Status status = ForEachLine("t.tsv", '\t', &stream, [&](int64_t, auto fields) {
      field = std::string(fields[0]);
      return absl::OkStatus();
    });
    return status.ok() ? field : std::string(status.message());
  };
  EXPECT_EQ(first("1\t2\n"), "1");
  EXPECT_EQ(first("\xef\xbb\xbf"
                  "1\t2\n"),
            "1");
  EXPECT_THAT(first({"PAR1\0", 5}), HasSubstr("t.tsv: expected text, got Apache Parquet; "));
}

// Whatever the pieces in which a text is read, its rows are those of the whole.
TEST(DelimitedTextTest, LinesOfATextLargerThanAPiece) {
  std::string text = "a\tb\r\n\n";
  for (int i = 0; text.size() < (5u << 20); ++i) {
    absl::StrAppend(&text, i, "\t", std::string(i % 1000, 'x'), i % 3 == 0 ? "\r\n" : "\n",
                    i % 100 == 0 ? "\n" : "");
  }
  text += std::string(3 << 20, 'y') + "\tlast";  // longer than what is read at once
  const auto lines = [](absl::string_view of, absl::Status* status) {
    std::vector<std::string> rows;
    PackedStream stream(of);
    *status = ForEachLine("t.tsv", '\t', &stream, [&](int64_t line, auto fields) {
      rows.push_back(absl::StrCat(line, ": ", absl::StrJoin(fields, "|")));
      return rows.back() == "7: no|" ? absl::DataLossError("no") : absl::OkStatus();
    });
    return rows;
  };
  absl::Status status;
  EXPECT_EQ(lines(text, &status), Rows(text, {.delimiter = '\t', .quotes = false, .names = false}));
  EXPECT_EQ(status, absl::OkStatus());
  lines(text + "\tmore", &status);
  EXPECT_THAT(std::string(status.message()), HasSubstr(": expected 2 fields, got 3"));
  lines("a\n\n\n\n\n\nno|\n", &status);
  EXPECT_EQ(status.message(), "t.tsv:7: no");
  lines("\n", &status);
  EXPECT_EQ(status.message(), "t.tsv: expected rows, got none");
  lines("a\n" + std::string(40 << 20, 'z'), &status);
  EXPECT_EQ(status.message(), "t.tsv:2: expected a line of less than 16 MiB, got more");
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
