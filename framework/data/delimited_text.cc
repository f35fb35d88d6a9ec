#include "framework/data/delimited_text.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/base/printable.h"
#include "framework/base/status.h"
#include "framework/base/text.h"
#include "framework/data/text_file.h"

namespace sluice {
namespace {

// Takes rows off a text. A field without a quote in it is a part of the text; of others what the
// quotes hold is put together apart.
class RowReader {
 public:
  // `line`: on which the text begins.
  RowReader(absl::string_view text, const DelimitedOptions& options, int64_t line = 1)
      : text_(text), options_(options), line_(line), next_line_(line) {}

  int64_t line() const { return line_; }  // on which the row begins that was taken last

  // False at the end of the text.
  absl::StatusOr<bool> Next(std::vector<absl::string_view>* fields) {
    while (at_ < text_.size() && (text_[at_] == '\n' || text_.substr(at_, 2) == "\r\n")) {
      at_ += text_[at_] == '\n' ? 1 : 2;
      ++next_line_;
    }
    line_ = next_line_;
    fields->clear();
    joined_.clear();
    if (at_ == text_.size()) return false;
    while (true) {
      const bool quoted = options_.quotes && at_ < text_.size() && text_[at_] == '"';
      if (quoted) {
        ASSIGN_OR_RETURN(const absl::string_view field, QuotedField());
        fields->push_back(field);
      } else {
        fields->push_back(PlainField());
      }
      if (at_ < text_.size() && text_[at_] == options_.delimiter) {
        ++at_;
        continue;
      }
      break;
    }
    at_ += text_.substr(at_, 2) == "\r\n" ? 1 : 0;
    at_ += at_ < text_.size() ? 1 : 0;
    ++next_line_;
    return true;
  }

 private:
  absl::string_view PlainField() {
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != '\n' && text_[at_] != options_.delimiter) ++at_;
    absl::string_view field = text_.substr(begin, at_ - begin);
    const bool ends_line = at_ == text_.size() || text_[at_] == '\n';
    if (ends_line && !field.empty() && field.back() == '\r') field.remove_suffix(1);
    return field;
  }

  absl::StatusOr<absl::string_view> QuotedField() {
    std::string& field = joined_.emplace_back();
    const int64_t first = next_line_;
    for (++at_; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      next_line_ += c == '\n' ? 1 : 0;
      if (c != '"') {
        field += c;
      } else if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
        field += text_[++at_];
      } else {
        ++at_;
        const bool ends = at_ == text_.size() || text_[at_] == options_.delimiter ||
                          text_[at_] == '\n' || text_.substr(at_, 2) == "\r\n";
        if (ends) return absl::string_view(field);
        line_ = next_line_;
        return absl::DataLossError(
            "expected the end of a field behind its closing quote, got more of it");
      }
    }
    line_ = first;
    return absl::DataLossError("expected a closing quote, got the end of the text");
  }

  const absl::string_view text_;
  const DelimitedOptions options_;
  size_t at_ = 0;
  int64_t line_, next_line_;
  std::deque<std::string> joined_;  // addresses stay
};

}  // namespace

absl::StatusOr<float> NumberOfField(absl::string_view field, absl::string_view or_else) {
  float number = 0;
  const bool is_number = absl::SimpleAtof(field, &number);
  if (is_number && std::isfinite(number)) return number;
  return absl::DataLossError(absl::StrCat("expected a ", is_number ? "finite " : "", "number",
                                          or_else, ", got \"", PrintableLine(field), "\""));
}

absl::StatusOr<DelimitedText> DelimitedText::Open(std::string what, absl::string_view text,
                                                  const DelimitedOptions& options) {
  DelimitedText result(std::move(what), text, options);
  RowReader reader(text, options);
  std::vector<absl::string_view> fields;
  const absl::StatusOr<bool> any = reader.Next(&fields);
  RETURN_IF_ERROR(AddContext(any.status(), absl::StrCat(result.what_, ":", reader.line())));
  if (!*any) {
    return absl::DataLossError(absl::StrCat(result.what_, ": expected rows, got none"));
  }
  result.columns_ = static_cast<int64_t>(fields.size());
  if (!options.names) return result;
  result.names_ = std::vector<std::string>(fields.begin(), fields.end());
  std::set<std::string> seen;
  for (const std::string& name : result.names_) {
    if (seen.insert(name).second) continue;
    return absl::DataLossError(absl::StrCat(result.what_, ":", reader.line(),
                                            ": expected a name once, got ", name, " twice"));
  }
  return result;
}

absl::StatusOr<int64_t> DelimitedText::Column(absl::string_view name) const {
  for (size_t i = 0; i < names_.size(); ++i) {
    if (names_[i] == name) return static_cast<int64_t>(i);
  }
  return absl::NotFoundError(
      absl::StrCat(what_, ": expected a column ", name, ", found none", DidYouMean(name, names_)));
}

absl::StatusOr<std::vector<int64_t>> DelimitedText::Columns(
    absl::Span<const std::string> names) const {
  std::vector<int64_t> columns;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const int64_t column, Column(name));
    columns.push_back(column);
  }
  return columns;
}

namespace {

// What is left of a text, whose rows have so many columns; 0: as many as the first.
absl::Status TakeRows(absl::string_view what, const RowFunction& fn, int64_t* columns,
                      RowReader* reader) {
  std::vector<absl::string_view> fields;
  while (true) {
    const absl::StatusOr<bool> any = reader->Next(&fields);
    if (!any.ok()) return AddContext(any.status(), absl::StrCat(what, ":", reader->line()));
    if (!*any) return absl::OkStatus();
    if (*columns == 0) *columns = static_cast<int64_t>(fields.size());
    if (static_cast<int64_t>(fields.size()) != *columns) {
      return absl::DataLossError(absl::StrCat(what, ":", reader->line(), ": expected ", *columns,
                                              " fields, got ", fields.size()));
    }
    const absl::Status done = fn(reader->line(), fields);
    if (!done.ok()) return AddContext(done, absl::StrCat(what, ":", reader->line()));
  }
}

}  // namespace

absl::Status DelimitedText::ForEachRow(const RowFunction& fn) const {
  RowReader reader(text_, options_);
  std::vector<absl::string_view> names;
  if (options_.names) RETURN_IF_ERROR(reader.Next(&names).status());
  int64_t columns = columns_;
  return TakeRows(what_, fn, &columns, &reader);
}

absl::Status ForEachLine(absl::string_view what, char delimiter, PackedStream* text,
                         const RowFunction& fn) {
  constexpr size_t kFewest = size_t{1} << 20, kMost = size_t{1} << 24;
  const DelimitedOptions options = {.delimiter = delimiter, .quotes = false, .names = false};
  std::string piece;  // whole lines, and the begin of one
  int64_t line = 1, columns = 0;
  for (bool ended = false, first = true; !ended; first = false) {
    const size_t kept = piece.size(), some = std::max(kFewest, kept);
    if (kept >= kMost) {
      return absl::DataLossError(absl::StrCat(what, ":", line, ": expected a line of less than ",
                                              kMost >> 20, " MiB, got more"));
    }
    piece.resize(kept + some);
    const auto got = text->Read(reinterpret_cast<uint8_t*>(piece.data()) + kept, some);
    if (!got.ok()) return AddContext(got.status(), absl::StrCat("data: ", what));
    piece.resize(kept + *got);
    ended = static_cast<size_t>(*got) < some;
    if (first) RETURN_IF_ERROR(BeginText(what, &piece));
    const size_t whole = ended ? piece.size() : piece.rfind('\n') + 1;  // 0 where no line ends
    RowReader reader(absl::string_view(piece).substr(0, whole), options, line);
    RETURN_IF_ERROR(TakeRows(what, fn, &columns, &reader));
    line = reader.line();  // of the end, behind all rows
    piece.erase(0, whole);
  }
  if (columns > 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(what, ": expected rows, got none"));
}

}  // namespace sluice
