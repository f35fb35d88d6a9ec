// Tables as text, a row a line, as CSV (RFC 4180) and the TSV files of click logs are: a character
// between fields, quotes around those that have it or an end of line in them, a first line of names
// or none. Any thread, once made.
#ifndef SLUICE_FRAMEWORK_DATA_DELIMITED_TEXT_H_
#define SLUICE_FRAMEWORK_DATA_DELIMITED_TEXT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/data/packed.h"

namespace sluice {

struct DelimitedOptions {
  char delimiter = ',';
  bool quotes = true;  // else a quote is a character like others
  bool names = true;   // the first line has the names of the columns
};

// Returns the number that a field is. DataLoss, "expected a number or nothing, got ..", where it is
// none, and where it is one that no float holds: 1e400 is infinite, and inf and nan are no numbers.
// Callers to whom an empty field is a missing number ask before, and say so by `or_else`.
absl::StatusOr<float> NumberOfField(absl::string_view field, absl::string_view or_else = "");

// Of a row: the line on which it begins, and its fields, which are good until it returns.
using RowFunction =
    std::function<absl::Status(int64_t line, absl::Span<const absl::string_view> fields)>;

class DelimitedText {
 public:
  // `text` must outlive it. `what` begins every error, which names the line.
  static absl::StatusOr<DelimitedText> Open(std::string what, absl::string_view text,
                                            const DelimitedOptions& options);

  const std::vector<std::string>& names() const { return names_; }  // none where no line has them
  int64_t columns() const { return columns_; }                      // of every row
  // NotFound says which name comes nearest.
  absl::StatusOr<int64_t> Column(absl::string_view name) const;
  absl::StatusOr<std::vector<int64_t>> Columns(absl::Span<const std::string> names) const;

  // Each row behind the names; empty lines are left out. Errors: fn's own, after path and line; a
  // row of another number of fields than the first; a quote that does not end, or ends within a
  // field.
  absl::Status ForEachRow(const RowFunction& fn) const;

 private:
  DelimitedText(std::string what, absl::string_view text, const DelimitedOptions& options)
      : what_(std::move(what)), text_(text), options_(options) {}

  std::string what_;
  absl::string_view text_;
  DelimitedOptions options_;
  std::vector<std::string> names_;
  int64_t columns_ = 0;
};

// The same of a text that is larger than memory, of which a few MiB are there at a time. Without
// quotes and names: a row is a line, and none is longer than 16 MiB. `what` is the path of the
// text, which begins as BeginText of text_file.h wants it.
absl::Status ForEachLine(absl::string_view what, char delimiter, PackedStream* text,
                         const RowFunction& fn);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_DELIMITED_TEXT_H_
