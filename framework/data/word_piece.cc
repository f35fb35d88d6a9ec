#include "framework/data/word_piece.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/hash.h"
#include "framework/base/printable.h"
#include "framework/base/status.h"
#include "framework/base/text.h"
#include "framework/data/basic_tokenizer.h"
#include "framework/data/file.h"

namespace sluice {
namespace {

constexpr absl::string_view kGoesOn = "##";
// A table of embeddings with as many rows fits into no memory; files of other kinds have as many
// lines.
constexpr int64_t kMostPieces = 10'000'000;

// What a piece covers is also what lies between its characters, and was dropped.
TextRange Covered(absl::Span<const TextRange> origins) {
  // Marks in canonical order may stand in another order than in the text.
  TextRange covered = origins[0];
  for (const TextRange& origin : origins) {
    covered.begin = std::min(covered.begin, origin.begin);
    covered.end = std::max(covered.end, origin.end);
  }
  return covered;
}

bool BeginsCharacter(char byte) { return (static_cast<uint8_t>(byte) & 0xc0) != 0x80; }

}  // namespace

absl::StatusOr<WordPiece> WordPiece::Parse(absl::string_view what, absl::string_view vocabulary,
                                           const WordPieceOptions& options) {
  WordPiece result(options);
  const auto error = [what, &result](const auto&... words) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ", line ", result.size() + 1, ": expected ", words...));
  };
  absl::flat_hash_map<absl::string_view, int32_t> lines;
  while (!vocabulary.empty()) {
    const size_t end = std::min(vocabulary.find('\n'), vocabulary.size());
    const absl::string_view line = absl::StripTrailingAsciiWhitespace(vocabulary.substr(0, end));
    vocabulary.remove_prefix(std::min(end + 1, vocabulary.size()));
    if (line.empty()) return error("a piece, got a line without one");
    if (!IsUtf8(line)) return error("a piece in UTF-8, got \"", PrintableLine(line), "\"");
    if (result.size() == kMostPieces) return error("at most ", kMostPieces, " pieces, got more");
    const auto id = static_cast<int32_t>(result.size());
    const auto [found, fresh] = lines.emplace(line, id);
    if (!fresh) {
      return error("each piece once, got \"", PrintableLine(line), "\" as in line ",
                   found->second + 1);
    }
    const bool goes_on = line.size() > kGoesOn.size() && absl::StartsWith(line, kGoesOn);
    Table& table = goes_on ? result.continues_ : result.begins_;
    const absl::string_view text = goes_on ? line.substr(kGoesOn.size()) : line;
    table.ids.emplace(text, id);
    table.longest = std::max(table.longest, text.size());
    result.pieces_.emplace_back(line);
    result.goes_on_.push_back(goes_on);
  }
  RETURN_IF_ERROR(result.FindSpecial(what));
  return result;
}

absl::Status WordPiece::FindSpecial(absl::string_view what) {
  const SpecialPieces& names = options_.special;
  const std::array<std::pair<absl::string_view, int32_t*>, 5> special = {
      {{names.padding, &padding_},
       {names.unknown, &unknown_},
       {names.classify, &classify_},
       {names.separator, &separator_},
       {names.mask, &mask_}}};
  for (const auto& [name, id] : special) {
    const auto found = begins_.ids.find(name);
    if (found == begins_.ids.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, ": expected a piece ", name, ", got ", size(), " others"));
    }
    *id = found->second;
  }
  return absl::OkStatus();
}

absl::StatusOr<WordPiece> WordPiece::Read(const std::string& path,
                                          const WordPieceOptions& options) {
  ASSIGN_OR_RETURN(const std::string vocabulary, ReadFile(path));
  return Parse(absl::StrCat("data: ", path), vocabulary, options);
}

uint64_t WordPiece::digest() const {
  StableHasher hasher;
  const TextNormalization& text = options_.text;
  hasher.Add(text.lower_case).Add(text.strip_accents).Add(text.split_chinese);
  hasher.Add(options_.longest_word);
  for (const int32_t id : {padding_, unknown_, classify_, separator_, mask_}) hasher.Add(id);
  for (const std::string& piece : pieces_) hasher.Add(piece);
  return hasher.digest();
}

void WordPiece::Encode(absl::string_view text, std::vector<int32_t>* ids,
                       std::vector<TextRange>* ranges) const {
  WordReader reader(text, options_.text);
  while (reader.Next()) {
    const size_t before = ids->size(), ranges_before = ranges == nullptr ? 0 : ranges->size();
    if (reader.code_points() <= options_.longest_word &&
        EncodeWord(reader.word(), reader.origins(), ids, ranges)) {
      continue;
    }
    ids->resize(before);
    ids->push_back(unknown_);
    if (ranges == nullptr) continue;
    ranges->resize(ranges_before);
    ranges->push_back(Covered(reader.origins()));
  }
}

bool WordPiece::EncodeWord(absl::string_view word, absl::Span<const TextRange> origins,
                           std::vector<int32_t>* ids, std::vector<TextRange>* ranges) const {
  for (size_t at = 0; at < word.size();) {
    const Table& table = at == 0 ? begins_ : continues_;
    size_t size = std::min(word.size() - at, table.longest);
    auto found = table.ids.end();
    for (; size > 0; --size) {
      if (at + size < word.size() && !BeginsCharacter(word[at + size])) continue;
      found = table.ids.find(word.substr(at, size));
      if (found != table.ids.end()) break;
    }
    if (size == 0) return false;
    ids->push_back(found->second);
    if (ranges != nullptr) ranges->push_back(Covered(origins.subspan(at, size)));
    at += size;
  }
  return true;
}

}  // namespace sluice
