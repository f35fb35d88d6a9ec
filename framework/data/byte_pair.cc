#include "framework/data/byte_pair.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <queue>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "framework/base/hash.h"
#include "framework/base/printable.h"
#include "framework/base/status.h"
#include "framework/base/text.h"
#include "framework/data/unicode.h"

namespace sluice {
namespace {

constexpr int kBytes = 256;
constexpr absl::string_view kEndOfText = "<|endoftext|>";

enum class Class : uint8_t { kSpace, kLetter, kNumber, kOther };

Class ClassOf(uint32_t c) {
  if (c < 0x80) {
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') return Class::kLetter;
    if (c >= '0' && c <= '9') return Class::kNumber;
    return c == ' ' || (c >= 0x9 && c <= 0xd) ? Class::kSpace : Class::kOther;
  }
  if (IsLetter(c)) return Class::kLetter;
  if (IsNumber(c)) return Class::kNumber;
  return IsWhiteSpace(c) ? Class::kSpace : Class::kOther;
}

// The character at a place of a text: its class and how many bytes it takes.
struct Character {
  Class of = Class::kOther;
  size_t length = 0;
};

Character At(absl::string_view text, size_t at) {
  const CodePoint first = FirstCodePoint(text.substr(at));
  return {ClassOf(first.value), static_cast<size_t>(first.length)};
}

// Where the characters of a class end that begin at `at`.
size_t RunEnd(absl::string_view text, size_t at, Class of) {
  while (at < text.size()) {
    const Character next = At(text, at);
    if (next.of != of) break;
    at += next.length;
  }
  return at;
}

// All but the last character of white space, which goes with the word behind it; all of it where
// nothing is behind.
size_t SpaceEnd(absl::string_view text) {
  size_t at = 0, last = 0;
  while (at < text.size()) {
    const Character next = At(text, at);
    if (next.of != Class::kSpace) return last == 0 ? at : last;
    last = at;
    at += next.length;
  }
  return at;
}

// The files have a printable character for each byte: itself where it is printable in Latin-1, else
// the next one from U+0100 on.
std::array<uint32_t, kBytes> PrintableBytes() {
  std::array<uint32_t, kBytes> characters;
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < kBytes; ++byte) {
    const bool printable =
        (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    characters[byte] = printable ? byte : next++;
  }
  return characters;
}

// The bytes that a token of the files stands for; false where a character stands for none.
bool BytesOf(absl::string_view token, std::string* bytes) {
  static const absl::flat_hash_map<uint32_t, char> all = [] {
    absl::flat_hash_map<uint32_t, char> result;
    const auto characters = PrintableBytes();
    for (int byte = 0; byte < kBytes; ++byte) result[characters[byte]] = static_cast<char>(byte);
    return result;
  }();
  bytes->clear();
  while (!token.empty()) {
    const CodePoint first = FirstCodePoint(token);
    const auto found = all.find(first.value);
    if (found == all.end()) return false;
    bytes->push_back(found->second);
    token.remove_prefix(first.length);
  }
  return true;
}

}  // namespace

size_t FirstWord(absl::string_view text) {
  if (text[0] == '\'') {
    for (const absl::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
      if (absl::StartsWith(text, ending)) return ending.size();
    }
  }
  const size_t begin = text[0] == ' ' && text.size() > 1 ? 1 : 0;
  const Class of = At(text, begin).of;
  return of == Class::kSpace ? SpaceEnd(text) : RunEnd(text, begin, of);
}

// The symbols of a word while they are joined, as a list in both directions, and which of them may
// be joined with the next. A word may be as long as a text, and is not searched anew for each pair.
struct BytePair::Scratch {
  struct Symbol {
    int32_t token = 0;
    int64_t before = -1, next = -1;
  };
  struct Candidate {
    int32_t rank = 0, token = 0;
    int64_t left = 0;
    // The lowest rank on top, of equals the leftmost.
    friend bool operator<(const Candidate& a, const Candidate& b) {
      return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
    }
  };
  std::vector<Symbol> symbols;
  std::priority_queue<Candidate> candidates;
};

absl::StatusOr<BytePair> BytePair::Parse(absl::string_view encoder_name, absl::string_view encoder,
                                         absl::string_view merges_name, absl::string_view merges) {
  BytePair result;
  RETURN_IF_ERROR(result.ReadEncoder(encoder_name, encoder));
  RETURN_IF_ERROR(result.ReadMerges(merges_name, merges));
  return result;
}

absl::Status BytePair::ReadEncoder(absl::string_view name, absl::string_view encoder) {
  const auto error = [name](const auto&... words) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": expected ", words...));
  };
  const auto json =
      nlohmann::json::parse(encoder.begin(), encoder.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return error("a JSON object of tokens and their ids");
  bytes_.resize(json.size());
  std::vector<bool> seen(json.size());
  for (const auto& [token, id] : json.items()) {
    const bool number = id.is_number_unsigned() && id.get<uint64_t>() < json.size();
    if (!number || seen[id.get<uint64_t>()]) {
      return error("ids from 0 to ", json.size() - 1, ", each once, got ",
                   number ? absl::StrCat(id.get<uint64_t>(), " again") : "another", " of ",
                   Quoted(PrintableLine(token)));
    }
    const auto at = static_cast<int32_t>(id.get<uint64_t>());
    seen[at] = true;
    if (!BytesOf(token, &bytes_[at])) {
      return error("tokens of characters that stand for bytes, got ", Quoted(PrintableLine(token)));
    }
    if (token.empty() || !tokens_.emplace(bytes_[at], at).second) {
      return error("tokens of other bytes each, got ", Quoted(PrintableLine(token)), " of ", at);
    }
  }
  const auto end = tokens_.find(kEndOfText);
  if (end != tokens_.end()) end_of_text_ = end->second;
  for (int byte = 0; byte < kBytes; ++byte) {
    const auto found = tokens_.find(std::string(1, static_cast<char>(byte)));
    if (found == tokens_.end()) return error("a token for each byte, got none for byte ", byte);
    byte_tokens_.push_back(found->second);
  }
  return absl::OkStatus();
}

absl::Status BytePair::ReadMerges(absl::string_view name, absl::string_view merges) {
  int64_t number = 0;
  while (!merges.empty()) {
    ++number;
    const size_t end = std::min(merges.find('\n'), merges.size());
    const absl::string_view line = absl::StripSuffix(merges.substr(0, end), "\r");
    merges.remove_prefix(std::min(end + 1, merges.size()));
    if (line.empty() || (number == 1 && absl::StartsWith(line, "#version"))) continue;
    const auto error = [name, number, line](absl::string_view expected) {
      return absl::InvalidArgumentError(absl::StrCat(name, ", line ", number, ": expected ",
                                                     expected, ", got ",
                                                     Quoted(PrintableLine(line.substr(0, 80)))));
    };
    const size_t blank = line.find(' ');
    std::string left, right;
    if (blank == absl::string_view::npos || !BytesOf(line.substr(0, blank), &left) ||
        !BytesOf(line.substr(blank + 1), &right)) {
      return error("two tokens with a blank between them");
    }
    const auto first = tokens_.find(left), second = tokens_.find(right),
               whole = tokens_.find(left + right);
    if (first == tokens_.end() || second == tokens_.end() || whole == tokens_.end()) {
      return error("tokens that have an id, and have one together");
    }
    const Pair pair = static_cast<Pair>(first->second) << 32 | static_cast<Pair>(second->second);
    const auto rank = static_cast<int32_t>(merges_.size());
    if (!merges_.emplace(pair, Merge{rank, whole->second}).second) return error("each pair once");
  }
  return absl::OkStatus();
}

uint64_t BytePair::digest() const {
  StableHasher hasher;
  for (const std::string& token : bytes_) hasher.Add(token);
  std::vector<Pair> pairs(merges_.size());
  for (const auto& [pair, merge] : merges_) pairs[merge.rank] = pair;
  for (const Pair pair : pairs) hasher.Add(static_cast<int64_t>(pair));
  return hasher.digest();
}

void BytePair::Encode(absl::string_view text, std::vector<int32_t>* tokens) const {
  // Most words of a text have been there before: where their tokens stand, and how many.
  struct Place {
    int64_t begin = 0, count = 0;
  };
  absl::flat_hash_map<absl::string_view, Place> known;
  Scratch scratch;
  while (!text.empty()) {
    const absl::string_view word = text.substr(0, FirstWord(text));
    text.remove_prefix(word.size());
    const auto size = static_cast<int64_t>(tokens->size());
    const auto [found, fresh] = known.emplace(word, Place{size, 0});
    if (fresh) {
      EncodeWord(word, &scratch, tokens);
      found->second.count = static_cast<int64_t>(tokens->size()) - size;
      continue;
    }
    const auto [begin, count] = found->second;
    for (int64_t i = begin; i < begin + count; ++i) tokens->push_back((*tokens)[i]);
  }
}

void BytePair::Push(int64_t left, Scratch* scratch) const {
  const int64_t right = scratch->symbols[left].next;
  if (right < 0) return;
  const auto found = merges_.find(static_cast<Pair>(scratch->symbols[left].token) << 32 |
                                  static_cast<Pair>(scratch->symbols[right].token));
  if (found != merges_.end())
    scratch->candidates.push({found->second.rank, found->second.token, left});
}

void BytePair::EncodeWord(absl::string_view word, Scratch* scratch,
                          std::vector<int32_t>* tokens) const {
  std::vector<Scratch::Symbol>& symbols = scratch->symbols;
  symbols.clear();
  const auto size = static_cast<int64_t>(word.size());
  for (int64_t i = 0; i < size; ++i) {
    symbols.push_back(
        {byte_tokens_[static_cast<uint8_t>(word[i])], i - 1, i + 1 < size ? i + 1 : -1});
  }
  for (int64_t i = 0; i < size; ++i) Push(i, scratch);
  while (!scratch->candidates.empty()) {
    const Scratch::Candidate best = scratch->candidates.top();
    scratch->candidates.pop();
    // Either side may have been joined with another meanwhile; what was joined to its left has the
    // token -1, of which there are no pairs.
    Scratch::Symbol& left = symbols[best.left];
    if (left.next < 0) continue;
    Scratch::Symbol& right = symbols[left.next];
    const auto found =
        merges_.find(static_cast<Pair>(left.token) << 32 | static_cast<Pair>(right.token));
    if (found == merges_.end() || found->second.rank != best.rank) continue;
    left.token = best.token;
    right.token = -1;
    left.next = right.next;
    if (left.next >= 0) symbols[left.next].before = best.left;
    Push(best.left, scratch);
    if (left.before >= 0) Push(left.before, scratch);
  }
  for (int64_t i = 0; i >= 0; i = symbols[i].next) tokens->push_back(symbols[i].token);
}

absl::StatusOr<std::string> BytePair::Decode(absl::Span<const int32_t> tokens) const {
  std::string text;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= size()) {
      return absl::OutOfRangeError(absl::StrCat("expected tokens from 0 to ", size() - 1, ", got ",
                                                tokens[i], " at place ", i));
    }
    text += bytes_[tokens[i]];
  }
  return text;
}

}  // namespace sluice
