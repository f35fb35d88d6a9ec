// What the tokens of a GPT stand for: each for a byte, or for GPT-2's byte pairs, or, where nobody
// says it, for nothing but its number. Any thread, once made.
#ifndef SLUICE_MODELS_GPT_TOKENIZER_H_
#define SLUICE_MODELS_GPT_TOKENIZER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/data/byte_pair.h"
#include "framework/train/app_options.h"
#include "framework/train/run_files.h"

namespace sluice {

class Tokenizer {
 public:
  Tokenizer() = default;  // of bytes
  explicit Tokenizer(BytePair pairs) : pairs_(std::make_shared<BytePair>(std::move(pairs))) {}
  // `size` tokens without a text.
  static Tokenizer OfNumbers(int64_t size);

  // Tokens that there are; a model may have more, which stand for nothing and are never written.
  int64_t size() const { return pairs_ ? pairs_->size() : size_; }
  bool is_bytes() const { return !pairs_ && !numbers_; }
  bool has_text() const { return !numbers_; }
  // For people: "bytes", "2257 byte pairs", "50257 tokens without a text".
  std::string name() const;

  // Of tokens without a text: numbers with blanks between them. InvalidArgument: what is no token.
  absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text) const;
  absl::StatusOr<std::string> Decode(absl::Span<const int32_t> tokens) const;
  // Of all of the tokens. REQUIRES: has_text(), and each is one.
  int64_t CountBytes(absl::Span<const int32_t> tokens) const;

 private:
  std::shared_ptr<const BytePair> pairs_;
  bool numbers_ = false;
  int64_t size_ = 256;
};

// The tokenizer of a run, and what the run keeps of it in its folder (AppData::files).
struct RunTokenizer {
  Tokenizer tokenizer;
  std::string where;  // for people: the folder that it comes from; empty: it has no files
  uint64_t digest = 0;
  std::map<std::string, std::string> files;
};

// For a model of so many tokens: byte pairs as the run that is gone on with has them or, if it has
// none, `folder` or, if that is empty, the run of --init; else bytes, where the model has 256
// tokens, or numbers. InvalidArgument where the model has fewer tokens than there are byte pairs,
// or where a table of --init would be taken over for other byte pairs than its own.
absl::StatusOr<RunTokenizer> FindTokenizer(const AppOptions& options, const std::string& folder,
                                           int64_t vocabulary);

// Returns the byte pairs of a folder as a run keeps them for FindTokenizer; all null where the
// folder has none.
absl::StatusOr<RunFiles> TokenizerFiles(const std::string& folder, int64_t vocabulary);

}  // namespace sluice

#endif  // SLUICE_MODELS_GPT_TOKENIZER_H_
