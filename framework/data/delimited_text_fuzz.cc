// A table of text. What is read and written again, all of it in quotes, is read as the same; lines
// of a stream are those of the whole.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "framework/base/log.h"
#include "framework/data/delimited_text.h"
#include "framework/data/file_kind.h"
#include "framework/data/packed.h"

namespace sluice {
namespace {

using Rows = std::vector<std::vector<std::string>>;

absl::StatusOr<Rows> Read(absl::string_view text, const DelimitedOptions& options) {
  const absl::StatusOr<DelimitedText> table = DelimitedText::Open("fuzz", text, options);
  if (!table.ok()) return table.status();
  Rows rows;
  const absl::Status read =
      table->ForEachRow([&](int64_t, absl::Span<const absl::string_view> fields) {
        SLUICE_CHECK_EQ(static_cast<int64_t>(fields.size()), table->columns());
        rows.emplace_back(fields.begin(), fields.end());
        return absl::OkStatus();
      });
  if (!read.ok()) return read;
  return rows;
}

absl::StatusOr<Rows> ReadLines(absl::string_view text, char delimiter) {
  PackedStream stream(text);
  Rows rows;
  const absl::Status read = ForEachLine("fuzz", delimiter, &stream,
                                        [&](int64_t, absl::Span<const absl::string_view> fields) {
                                          rows.emplace_back(fields.begin(), fields.end());
                                          return absl::OkStatus();
                                        });
  if (!read.ok()) return read;
  return rows;
}

// A stream gives the rows of these bytes, and no others.
bool IsPlainText(absl::string_view text) {
  return !absl::StartsWith(text, "\xef\xbb\xbf") && KindOfMagic(text) == FileKind::kUnknown &&
         IsText(text);
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const sluice::DelimitedOptions options = {
      .delimiter = (data[0] & 1) != 0 ? '\t' : ',', .quotes = (data[0] & 2) != 0, .names = false};
  const absl::StatusOr<sluice::Rows> rows = sluice::Read(text, options);
  if (!options.quotes && sluice::IsPlainText(text)) {
    const absl::StatusOr<sluice::Rows> lines = sluice::ReadLines(text, options.delimiter);
    SLUICE_CHECK(lines.status() == rows.status()) << lines.status().message();
    SLUICE_CHECK(!rows.ok() || *lines == *rows);
  }
  if (!rows.ok()) return 0;
  std::string again;
  for (const auto& row : *rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      absl::StrAppend(&again, i == 0 ? "\"" : ",\"", absl::StrReplaceAll(row[i], {{"\"", "\"\""}}),
                      "\"");
    }
    again += "\n";
  }
  const absl::StatusOr<sluice::Rows> same =
      sluice::Read(again, {.delimiter = ',', .quotes = true, .names = false});
  SLUICE_CHECK_OK(same.status());
  SLUICE_CHECK(*same == *rows);
  return 0;
}
