#include "framework/data/wiki_text.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "framework/data/unicode.h"

namespace sluice {
namespace {

using absl::string_view;

// What is open at a time; more is markup that nobody wrote by hand.
constexpr size_t kMostOpen = 64;
// Elements that are left out with all that is in them.
constexpr std::array<string_view, 6> kLeftOut = {"ref",      "math",     "gallery",
                                                 "timeline", "imagemap", "hiero"};
// Of pages and links that are none of an article's text.
constexpr std::array<string_view, 12> kNamespaces = {
    "Talk:",      "User:",     "Wikipedia:", "Image:",  "File:",     "Media:",
    "MediaWiki:", "Template:", "Help:",      "Portal:", "Category:", "Special:"};

// The character of an entity, such as "&nbsp;" or "&#945;", at the beginning of the text, and how
// many bytes it takes; 0 where none is.
struct Entity {
  uint32_t code_point = 0;
  size_t length = 0;
};

Entity FirstEntity(string_view text) {
  static constexpr std::array<std::pair<string_view, uint32_t>, 14> kNames = {{{"lt", '<'},
                                                                               {"gt", '>'},
                                                                               {"amp", '&'},
                                                                               {"quot", '"'},
                                                                               {"nbsp", ' '},
                                                                               {"thinsp", ' '},
                                                                               {"ndash", 0x2013},
                                                                               {"mdash", 0x2014},
                                                                               {"minus", 0x2212},
                                                                               {"times", 0xd7},
                                                                               {"middot", 0xb7},
                                                                               {"deg", 0xb0},
                                                                               {"eacute", 0xe9},
                                                                               {"hellip", 0x2026}}};
  constexpr size_t kLongest = 12;
  const size_t end = text.substr(0, kLongest).find(';');
  if (end == string_view::npos || end < 2) return {};
  string_view name = text.substr(1, end - 1);
  for (const auto& [known, code_point] : kNames) {
    if (name == known) return {code_point, end + 1};
  }
  if (!absl::ConsumePrefix(&name, "#")) return {};
  uint32_t number = 0;
  const bool hexadecimal = absl::ConsumePrefix(&name, "x") || absl::ConsumePrefix(&name, "X");
  const bool read =
      hexadecimal ? absl::SimpleHexAtoi(name, &number) : absl::SimpleAtoi(name, &number);
  const bool surrogate = number >= 0xd800 && number < 0xe000;
  if (!read || number == 0 || number > 0x10ffff || surrogate) return {};
  return {number, end + 1};
}

// Entities as the characters that they stand for, one level of them.
std::string WithoutEntities(string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Entity entity = text[at] == '&' ? FirstEntity(text.substr(at)) : Entity();
    if (entity.length == 0) {
      result.push_back(text[at++]);
    } else {
      AppendUtf8(entity.code_point, &result);
      at += entity.length;
    }
  }
  return result;
}

bool InOtherNamespace(string_view title) {
  return std::ranges::any_of(
      kNamespaces, [title](string_view name) { return absl::StartsWithIgnoreCase(title, name); });
}

// Whether a link leads to the article in another language, such as "de:Anarchismus".
bool IsOtherLanguage(string_view target) {
  const size_t colon = target.find(':');
  if (colon == string_view::npos || colon < 2 || colon > 12) return false;
  const string_view name = target.substr(0, colon);
  return std::ranges::all_of(name, [](char c) { return absl::ascii_islower(c) || c == '-'; });
}

// Takes markup apart in one go. What is opened remembers where the text stood then; when it is
// closed the text from there on is dropped, or becomes what one sees of it. What is never closed
// thereby stays as text.
class MarkupReader {
 public:
  explicit MarkupReader(string_view markup) : markup_(markup) {}

  std::string Read() {
    while (at_ < markup_.size()) {
      if (!ReadBraces() && !ReadLink() && !ReadTag() && !ReadRest())
        text_.push_back(markup_[at_++]);
    }
    return std::move(text_);
  }

 private:
  enum class Kind : uint8_t { kTemplate, kTable, kLink, kAddress };
  struct Open {
    Kind kind = Kind::kTemplate;
    size_t begin = 0;  // in text_
  };

  bool At(string_view word) const { return absl::StartsWith(markup_.substr(at_), word); }
  bool AtLineStart() const { return at_ == 0 || markup_[at_ - 1] == '\n'; }
  bool Begin(Kind kind, size_t length) {
    if (open_.size() < kMostOpen) open_.push_back({kind, text_.size()});
    return Skip(length);
  }
  bool Skip(size_t length) {
    at_ += length;
    return true;
  }
  // Drops all from the last thing of this kind on that is open, if one is.
  bool Drop(Kind kind, size_t length) {
    const auto last = std::find_if(open_.rbegin(), open_.rend(),
                                   [kind](const Open& open) { return open.kind == kind; });
    if (last == open_.rend()) return false;
    text_.resize(last->begin);
    open_.erase(std::prev(last.base()), open_.end());
    return Skip(length);
  }

  // Templates and tables.
  bool ReadBraces() {
    if (At("{{")) return Begin(Kind::kTemplate, 2);
    if (At("}}")) return Drop(Kind::kTemplate, 2) || Skip(2);
    if (AtLineStart() && At("{|")) return Begin(Kind::kTable, 2);
    const bool of_template = At("|}}") && !open_.empty() && open_.back().kind == Kind::kTemplate;
    return AtLineStart() && At("|}") && !of_template && Drop(Kind::kTable, 2);
  }

  bool ReadLink() {
    if (At("[[")) return Begin(Kind::kLink, 2);
    const bool open = !open_.empty();
    if (At("]]") && open && open_.back().kind == Kind::kLink) return CloseLink();
    if (At("[http://") || At("[https://") || At("[ftp://")) return Begin(Kind::kAddress, 1);
    if (At("]") && open && open_.back().kind == Kind::kAddress) {
      // Nothing is seen of an address but what stands behind its blank.
      const size_t begin = open_.back().begin, blank = text_.find(' ', begin);
      open_.pop_back();
      text_.erase(begin, blank == std::string::npos ? std::string::npos : blank + 1 - begin);
      return Skip(1);
    }
    return false;
  }

  bool CloseLink() {
    const size_t begin = open_.back().begin;
    open_.pop_back();
    const string_view content = string_view(text_).substr(begin);
    if (InOtherNamespace(content) || IsOtherLanguage(content)) {
      text_.resize(begin);
    } else if (const size_t bar = content.rfind('|'); bar != string_view::npos) {
      text_.erase(begin, bar + 1);
    }
    return Skip(2);
  }

  // Elements of HTML, and comments.
  bool ReadTag() {
    if (markup_[at_] != '<') return false;
    constexpr size_t kLongestTag = 300;
    if (At("<!--")) return SkipPast("-->", &comments_end_);
    for (size_t i = 0; i < kLeftOut.size(); ++i) {
      const string_view rest = markup_.substr(at_ + 1);
      if (!absl::StartsWithIgnoreCase(rest, kLeftOut[i])) continue;
      const size_t after = kLeftOut[i].size();
      if (rest.size() <= after || absl::ascii_isalpha(rest[after])) continue;
      const size_t end = rest.substr(0, kLongestTag).find('>');
      if (end == string_view::npos) return false;
      if (rest[end - 1] == '/') break;  // <ref name="a"/> has nothing in it
      const std::string closing = std::string("</") + std::string(kLeftOut[i]);
      if (SkipPast(closing, &elements_end_[i])) return true;
    }
    const size_t end = markup_.substr(at_, kLongestTag).find('>');
    const bool tag = at_ + 1 < markup_.size() &&
                     (absl::ascii_isalpha(markup_[at_ + 1]) || markup_[at_ + 1] == '/');
    if (end == string_view::npos || !tag) return false;
    if (absl::StartsWithIgnoreCase(markup_.substr(at_), "<br")) text_.push_back(' ');
    return Skip(end + 1);
  }

  // Goes behind what ends something; false where it does not end, which is then not looked for
  // again.
  bool SkipPast(string_view ending, bool* is_over) {
    const size_t found = *is_over ? string_view::npos : markup_.find(ending, at_);
    if (found == string_view::npos) {
      *is_over = true;
      return false;
    }
    at_ = found + ending.size();
    if (!absl::EndsWith(ending, ">")) {
      const size_t close = markup_.find('>', at_);
      at_ = close == string_view::npos ? markup_.size() : close + 1;
    }
    return true;
  }

  bool ReadRest() {
    if (At("''")) {
      while (At("'")) ++at_;  // bold, italic
      return true;
    }
    if (At("__") && at_ + 2 < markup_.size() && absl::ascii_isupper(markup_[at_ + 2])) {
      const size_t end = markup_.substr(at_ + 2, 24).find("__");
      if (end == string_view::npos) return false;
      return Skip(end + 4);
    }
    const Entity entity = At("&") ? FirstEntity(markup_.substr(at_)) : Entity();
    if (entity.length == 0) return false;
    AppendUtf8(entity.code_point, &text_);
    return Skip(entity.length);
  }

  string_view markup_;
  size_t at_ = 0;
  std::string text_;
  std::vector<Open> open_;
  bool comments_end_ = false;
  std::array<bool, kLeftOut.size()> elements_end_ = {};
};

// Without what makes a line a heading, a list item or part of a table; empty if no word is left.
string_view PlainLine(string_view line) {
  line = absl::StripAsciiWhitespace(line);
  if (absl::StartsWith(line, "|") || absl::StartsWith(line, "!")) return {};
  while (!line.empty() && absl::StrContains("*#:;= ", line.substr(0, 1))) line.remove_prefix(1);
  while (!line.empty() && absl::StrContains("= ", line.substr(line.size() - 1)))
    line.remove_suffix(1);
  const bool words = std::ranges::any_of(
      line, [](char c) { return absl::ascii_isalnum(c) || static_cast<uint8_t>(c) >= 0x80; });
  return words ? line : string_view();
}

// What stands between the next `begin` and the `end` after it, from *at on, which goes behind it;
// up to the end of the text where that ends nowhere. False where nothing begins.
bool NextBetween(string_view text, string_view begin, string_view end, size_t* at,
                 string_view* between) {
  const size_t from = text.find(begin, *at);
  if (from == string_view::npos) return false;
  const size_t first = from + begin.size(), last = std::min(text.find(end, first), text.size());
  *between = text.substr(first, last - first);
  *at = std::min(last + end.size(), text.size());
  return true;
}

}  // namespace

bool IsWikiDump(string_view bytes) {
  return absl::StartsWith(absl::StripLeadingAsciiWhitespace(bytes), "<mediawiki");
}

std::string WithoutWikiMarkup(string_view markup) {
  const std::string text = MarkupReader(markup).Read();
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const string_view line = PlainLine(string_view(text).substr(at, end - at));
    at = end + 1;
    if (line.empty()) continue;
    for (const char c : line) {
      const bool second_blank = absl::ascii_isspace(c) && !result.empty() && result.back() == ' ';
      if (!second_blank) result.push_back(absl::ascii_isspace(c) ? ' ' : c);
    }
    result.push_back('\n');
  }
  return result;
}

std::vector<std::string> WikiArticles(string_view dump) {
  std::vector<std::string> articles;
  size_t at = 0;
  string_view page;
  while (NextBetween(dump, "<page>", "</page>", &at, &page)) {
    size_t inside = 0;
    string_view title, markup;
    if (!NextBetween(page, "<title>", "</title>", &inside, &title)) continue;
    if (InOtherNamespace(title)) continue;
    if (!NextBetween(page, "<text", "</text>", &inside, &markup)) continue;
    const size_t tag = markup.find('>');
    if (tag == string_view::npos) continue;
    markup.remove_prefix(tag + 1);
    if (absl::StartsWithIgnoreCase(absl::StripLeadingAsciiWhitespace(markup), "#redirect"))
      continue;
    std::string text = WithoutWikiMarkup(WithoutEntities(markup));
    if (!text.empty()) articles.push_back(std::move(text));
  }
  return articles;
}

}  // namespace sluice
