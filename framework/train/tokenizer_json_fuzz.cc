// Bytes of a tokenizer.json, a tokenizer_config.json or an added_tokens.json: each is read as all
// of them. Word pieces that can be read print as what reads back.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "framework/base/log.h"
#include "framework/data/byte_pair.h"
#include "framework/data/word_piece.h"
#include "framework/train/hub_word_pieces.h"
#include "framework/train/tokenizer_json.h"

namespace {

void TryWordPieces(absl::string_view text) {
  const auto json = sluice::ParseWordPieceJson(text, "input");
  if (!json.ok()) return;
  const auto pieces =
      sluice::WordPiece::Parse("pieces", absl::StrJoin(json->pieces, "\n"), json->options);
  if (!pieces.ok()) return;
  const auto again = sluice::ParseWordPieceJson(sluice::WordPieceTokenizerJson(*pieces), "printed");
  SLUICE_CHECK_OK(again.status());
  SLUICE_CHECK_EQ(static_cast<int64_t>(again->pieces.size()), pieces->size());
  for (int32_t id = 0; id < pieces->size(); ++id) {
    SLUICE_CHECK(again->pieces[id] == pieces->piece(id)) << pieces->piece(id);
  }
  SLUICE_CHECK(again->options == pieces->options());
}

void TryBytePairs(absl::string_view text) {
  const auto json = sluice::ParseBytePairJson(text, "input");
  if (!json.ok()) return;
  const auto pairs = sluice::BytePair::Parse("encoder", json->encoder, "merges", json->merges);
  if (!pairs.ok()) return;
  std::vector<int32_t> tokens;
  pairs->Encode(text, &tokens);
  SLUICE_CHECK(*pairs->Decode(tokens) == text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  TryWordPieces(text);
  TryBytePairs(text);
  const auto config = sluice::ParseTokenizerConfig(text, "input");
  const auto added = sluice::ParseAddedTokens(text, "input");
  for (const absl::Status& status : {config.status(), added.status()}) {
    SLUICE_CHECK(status.ok() || absl::StartsWith(status.message(), "input")) << status;
  }
  return 0;
}
