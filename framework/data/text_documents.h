// Text as documents, each a whole by itself, and some of them held out. Pure but for reading.
#ifndef SLUICE_FRAMEWORK_DATA_TEXT_DOCUMENTS_H_
#define SLUICE_FRAMEWORK_DATA_TEXT_DOCUMENTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

struct TextDocuments {
  std::vector<std::string> training, held_out;
};

// The documents of a text between which there are blank lines; lines within one stay.
std::vector<std::string> DocumentsBetweenBlankLines(absl::string_view text);

// Every tenth document by hash of its bytes is held out, so that one that is there twice is on one
// side; where that would leave a side empty, the last tenth of them, at least one.
TextDocuments HoldOutDocuments(std::vector<std::string> documents);

// A file in UTF-8, plain or packed: a dump of Wikipedia, whose documents are its articles without
// markup (wiki_text.h), or text with blank lines between documents. Errors, naming the path: not
// readable, damaged, fewer than two documents.
absl::StatusOr<TextDocuments> ReadTextDocuments(const std::string& path);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_TEXT_DOCUMENTS_H_
