// Word pieces as folders of Hugging Face's hub have them, which is also how runs keep them:
// vocab.txt or tokenizer.json, and tokenizer_config.json, which says how text is read. Files of
// a tokenizer that treats text in another way are refused. A folder that has both forms must say
// the same in both. One thread.
#ifndef SLUICE_FRAMEWORK_TRAIN_HUB_WORD_PIECES_H_
#define SLUICE_FRAMEWORK_TRAIN_HUB_WORD_PIECES_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "framework/data/word_piece.h"

namespace sluice {

constexpr char kVocabularyFile[] = "vocab.txt";

struct HubWordPieces {
  WordPiece pieces;
  std::string where;  // the file that has them
};

// Returns whether a folder has a vocab.txt or a tokenizer.json.
bool HasWordPieces(const std::string& folder);
// Reads those of a folder, of a vocab.txt of any name, or of a tokenizer.json. Text is read in
// lower case unless a file says otherwise; where none says so, and pieces have capitals, which
// would never be found, it is InvalidArgument. NotFound: there are no word pieces.
absl::StatusOr<HubWordPieces> ReadWordPieces(const std::string& path);
// The files that hold a vocabulary, by name: vocab.txt and tokenizer_config.json.
std::map<std::string, std::string> WordPieceFiles(const WordPiece& pieces);
// The same in one text, a tokenizer.json.
std::string WordPieceTokenizerJson(const WordPiece& pieces);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_HUB_WORD_PIECES_H_
