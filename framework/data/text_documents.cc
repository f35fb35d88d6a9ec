#include "framework/data/text_documents.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "framework/base/hash.h"
#include "framework/base/status.h"
#include "framework/data/text_file.h"
#include "framework/data/wiki_text.h"

namespace sluice {
namespace {

constexpr uint64_t kHeldOutEvery = 10;

}  // namespace

std::vector<std::string> DocumentsBetweenBlankLines(absl::string_view text) {
  std::vector<std::string> documents;
  std::string document;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const absl::string_view line = absl::StripTrailingAsciiWhitespace(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty()) {
      absl::StrAppend(&document, line, "\n");
    } else if (!document.empty()) {
      documents.push_back(std::exchange(document, {}));
    }
  }
  if (!document.empty()) documents.push_back(std::move(document));
  return documents;
}

TextDocuments HoldOutDocuments(std::vector<std::string> documents) {
  const auto is_held_out = [](const std::string& document) {
    return StableHash(document) % kHeldOutEvery == 0;
  };
  const auto count = static_cast<size_t>(std::ranges::count_if(documents, is_held_out));
  const bool by_place = count == 0 || count == documents.size();
  const size_t cut = documents.size() - std::max<size_t>(documents.size() / kHeldOutEvery, 1);
  TextDocuments result;
  for (size_t i = 0; i < documents.size(); ++i) {
    const bool out = by_place ? i >= cut : is_held_out(documents[i]);
    (out ? result.held_out : result.training).push_back(std::move(documents[i]));
  }
  return result;
}

absl::StatusOr<TextDocuments> ReadTextDocuments(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  std::vector<std::string> documents =
      IsWikiDump(text) ? WikiArticles(text) : DocumentsBetweenBlankLines(text);
  if (documents.size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("data: ", path,
                     ": expected documents with blank lines between them, one to learn from and ",
                     "one to hold out, got ", documents.size()));
  }
  return HoldOutDocuments(std::move(documents));
}

}  // namespace sluice
