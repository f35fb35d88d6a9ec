// A vocabulary, a zero byte, and a text, whose first byte says how words are normalized.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/base/log.h"
#include "framework/data/word_piece.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t end = bytes.find('\0');
  if (size == 0 || end == absl::string_view::npos) return 0;
  const absl::string_view text = bytes.substr(end + 1);
  sluice::WordPieceOptions options;
  options.text.lower_case = data[0] % 2 == 0;
  options.text.strip_accents = (data[0] / 2) % 2 == 0;
  options.text.split_chinese = (data[0] / 4) % 2 == 0;
  // Of itself hardly an input would have the special pieces.
  const auto vocabulary = sluice::WordPiece::Parse(
      "input", absl::StrCat("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n", bytes.substr(0, end)), options);
  if (vocabulary.ok()) {
    std::vector<int32_t> ids;
    std::vector<sluice::TextRange> ranges;
    vocabulary->Encode(text, &ids, &ranges);
    SLUICE_CHECK_EQ(ids.size(), ranges.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      SLUICE_CHECK(ids[i] >= 0 && ids[i] < vocabulary->size());
      SLUICE_CHECK(ranges[i].begin >= 0 && ranges[i].begin < ranges[i].end);
      SLUICE_CHECK(ranges[i].end <= static_cast<int64_t>(text.size()));
    }
  }
  const auto learned = sluice::LearnWordPieces({text}, 200, options);
  if (!learned.ok()) return 0;
  SLUICE_CHECK_OK(sluice::WordPiece::Parse("learned", *learned, options).status());
  return 0;
}
