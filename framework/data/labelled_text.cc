#include "framework/data/labelled_text.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "framework/base/hash.h"
#include "framework/base/printable.h"
#include "framework/base/status.h"
#include "framework/data/text_file.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kHeldOutEvery = 10;
constexpr absl::string_view kTrain = "-train", kTest = "-test";
constexpr int kOrangeHeader = 3;  // names, types, and which column is the class

// A file as it is: labels are words.
struct Lines {
  std::vector<std::string> labels, texts;
  std::vector<int64_t> numbers;  // of the lines, from 1
};

std::string Shown(absl::string_view text) {
  constexpr size_t kMost = 40;
  return absl::StrCat("\"", PrintableLine(text.substr(0, kMost)), text.size() > kMost ? ".." : "",
                      "\"");
}

// How many lines Orange has put above the table: its third says which column is the class.
int HeaderLines(absl::string_view bytes) {
  const std::vector<absl::string_view> lines =
      absl::StrSplit(bytes, absl::MaxSplits('\n', kOrangeHeader));
  if (static_cast<int>(lines.size()) < kOrangeHeader) return 0;
  const std::vector<absl::string_view> roles = absl::StrSplit(lines[2], '\t');
  return absl::StripAsciiWhitespace(roles[0]) == "class" ? kOrangeHeader : 0;
}

absl::StatusOr<Lines> ReadLines(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string bytes, ReadTextFile(path));
  const int header = HeaderLines(bytes);
  Lines result;
  int64_t number = 0;
  for (absl::string_view line : absl::StrSplit(absl::string_view(bytes), '\n')) {
    ++number;
    line = absl::StripSuffix(line, "\r");
    if (number <= header || absl::StripAsciiWhitespace(line).empty()) continue;
    const size_t tab = line.find('\t');
    const absl::string_view label = absl::StripAsciiWhitespace(line.substr(0, tab));
    if (tab == absl::string_view::npos || label.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "data: ", path, ", line ", number, ": expected label TAB text, got ", Shown(line)));
    }
    RETURN_IF_ERROR(CheckUtf8(absl::StrCat("data: ", path, ", line ", number), "a label", label));
    result.labels.emplace_back(label);
    result.texts.emplace_back(line.substr(tab + 1));
    result.numbers.push_back(number);
  }
  return result;
}

// The file of what is held out, where this one is only what is trained on; else empty.
std::string TestPath(const std::string& path) {
  fs::path other = path;
  const std::string stem = other.stem().string();
  if (!absl::EndsWith(stem, kTrain)) return {};
  other.replace_filename(stem.substr(0, stem.size() - kTrain.size()) + std::string(kTest) +
                         other.extension().string());
  std::error_code error;
  return fs::exists(other, error) ? other.string() : std::string();
}

absl::Status Add(Lines lines, const std::string& path, const TextClasses& classes,
                 LabelledTexts* to) {
  for (size_t i = 0; i < lines.texts.size(); ++i) {
    const auto found = std::ranges::lower_bound(classes.names, lines.labels[i]);
    if (found == classes.names.end() || *found != lines.labels[i]) {
      return absl::InvalidArgumentError(absl::StrCat(
          "data: ", path, ", line ", lines.numbers[i], ": expected one of the ",
          classes.names.size(), " classes that are trained on, got ", Shown(lines.labels[i])));
    }
    to->texts.push_back(std::move(lines.texts[i]));
    to->labels.push_back(static_cast<int32_t>(found - classes.names.begin()));
  }
  return absl::OkStatus();
}

// Takes out every tenth text.
Lines TakeHeldOut(Lines* lines) {
  Lines rest, held_out;
  for (size_t i = 0; i < lines->texts.size(); ++i) {
    Lines& to = StableHash(lines->texts[i]) % kHeldOutEvery == 0 ? held_out : rest;
    to.labels.push_back(std::move(lines->labels[i]));
    to.texts.push_back(std::move(lines->texts[i]));
    to.numbers.push_back(lines->numbers[i]);
  }
  *lines = std::move(rest);
  return held_out;
}

}  // namespace

absl::StatusOr<TextClasses> ReadTextClasses(const std::string& path) {
  ASSIGN_OR_RETURN(Lines training, ReadLines(path));
  const std::string test = TestPath(path);
  Lines held_out;
  if (test.empty()) {
    held_out = TakeHeldOut(&training);
  } else {
    ASSIGN_OR_RETURN(held_out, ReadLines(test));
  }
  TextClasses result;
  const std::set<std::string> names(training.labels.begin(), training.labels.end());
  if (names.size() < 2 || held_out.texts.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data: ", path, ": expected texts of at least two classes, and some to hold out, got ",
        training.texts.size(), " of ", names.size(), " and ", held_out.texts.size()));
  }
  result.names.assign(names.begin(), names.end());
  RETURN_IF_ERROR(Add(std::move(training), path, result, &result.training));
  RETURN_IF_ERROR(Add(std::move(held_out), test.empty() ? path : test, result, &result.held_out));
  return result;
}

absl::StatusOr<LabelledText> LabelledText::Create(absl::string_view what,
                                                  const LabelledTexts& texts,
                                                  const WordPiece& vocabulary, int64_t length) {
  constexpr int64_t kSpecialTokens = 2;  // [CLS], [SEP]
  if (length <= kSpecialTokens) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": expected samples of at least ",
                                                   kSpecialTokens + 1, " tokens, got ", length));
  }
  if (texts.texts.empty() || texts.texts.size() != texts.labels.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": expected texts and a label for each, got ", texts.texts.size(),
                     " and ", texts.labels.size()));
  }
  LabelledText result(length);
  result.padding_ = vocabulary.padding();
  result.labels_ = texts.labels;
  result.begins_ = {0};
  for (const std::string& text : texts.texts) {
    result.tokens_.push_back(vocabulary.classify());
    const size_t most = result.tokens_.size() + length - kSpecialTokens;
    vocabulary.Encode(text, &result.tokens_);
    result.cut_ += result.tokens_.size() > most ? 1 : 0;
    result.tokens_.resize(std::min(result.tokens_.size(), most));
    result.tokens_.push_back(vocabulary.separator());
    result.begins_.push_back(static_cast<int64_t>(result.tokens_.size()));
    result.identity_.bytes += static_cast<int64_t>(text.size());
  }
  result.tokens_.shrink_to_fit();
  StableHasher hasher;
  hasher.Add(length);
  for (const int32_t token : result.tokens_) hasher.Add(token);
  for (const int32_t label : result.labels_) hasher.Add(label);
  result.identity_.digest = hasher.digest();
  result.fields_ = {{"tokens", DType::kI32, {length}},
                    {"segments", DType::kI32, {length}},
                    {"length", DType::kI32, {}},
                    {"label", DType::kI32, {}}};
  return result;
}

absl::Status LabelledText::Fill(int field, absl::Span<const int64_t> samples, int64_t,
                                const Box& box, std::byte* to) const {
  enum Field { kTokens, kSegments, kLength, kLabel };
  auto* values = reinterpret_cast<int32_t*>(to);
  for (const int64_t sample : samples) {
    const int64_t begin = begins_[sample], length = begins_[sample + 1] - begin;
    if (field == kLength) *values++ = static_cast<int32_t>(length);
    if (field == kLabel) *values++ = labels_[sample];
    if (field == kSegments) values = std::fill_n(values, box[0].size(), 0);
    if (field != kTokens) continue;
    for (int64_t i = box[0].begin; i < box[0].end; ++i) {
      *values++ = i < length ? tokens_[begin + i] : padding_;
    }
  }
  return absl::OkStatus();
}

}  // namespace sluice
