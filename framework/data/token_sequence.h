// Tokens in files, one file after the other as one sequence. They stay in their files, which the
// system caches once for all processes, and are read when they are asked for: a sequence may be
// much larger than memory.
#ifndef SLUICE_FRAMEWORK_DATA_TOKEN_SEQUENCE_H_
#define SLUICE_FRAMEWORK_DATA_TOKEN_SEQUENCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/stop.h"
#include "framework/data/dataset.h"
#include "framework/data/identify.h"
#include "framework/data/token_layout.h"

namespace sluice {

// Files of tokens of one data set, in the order of their names; held_out may be empty.
struct TokenPaths {
  std::vector<std::string> training, held_out;
};

// Finds the files of tokens that a path stands for: itself, NAME.bin or NAME.npy, or those of a
// folder whose names say what they are for, as nanoGPT (train.bin, val.bin), llm.c
// (fineweb_train_000001.bin, fineweb_val_000000.bin) and build-nanogpt
// (edufineweb_train_000001.npy) name them. None: the path is not that of tokens. InvalidArgument:
// files .bin and .npy in one folder, or held-out tokens only.
absl::StatusOr<TokenPaths> FindTokenFiles(const std::string& path);

// Which tokens there may be: those below `size`, as of `name`, "50257 byte pairs", or any where it
// is 0. The advice, if there is one, ends the error about another token.
struct TokenVocabulary {
  int64_t size = 0;
  std::string name = {}, advice = {};
};

// A part of a sequence of tokens; copies share the files. Any thread.
class TokenSequence {
 public:
  // Opens all files. Errors of OpenTokens; DataLoss where one is not as its header says.
  static absl::StatusOr<TokenSequence> Open(absl::Span<const std::string> paths,
                                            const TokenVocabulary& vocabulary);

  int64_t size() const { return end_ - begin_; }
  int64_t bits() const;  // that a token takes in the first file
  // The tokens [begin, end) of these.
  TokenSequence Part(int64_t begin, int64_t end) const;

  // Copies tokens. Allocates nothing. InvalidArgument: a token that is not in the vocabulary, of
  // which file and at which place there. DataLoss: a file that has become shorter.
  absl::Status Read(int64_t begin, int64_t count, int32_t* to) const;

  // Calls fn with pieces of all tokens, in order.
  absl::Status ForEachPiece(absl::FunctionRef<absl::Status(absl::Span<const int32_t>)> fn) const;
  // Calls fn with pieces from evenly spread places, about `most` tokens in all, or with all pieces
  // where there are no more.
  absl::Status ForEachPieceOf(int64_t most,
                              absl::FunctionRef<absl::Status(absl::Span<const int32_t>)> fn) const;

  // Reads all tokens, and so checks them, for the identity. Of more than kMostIdentified a sample
  // is read; the others are checked when they are read.
  absl::Status Identify(const Stop& stop = {});
  bool is_sampled() const { return size() > kMostIdentified; }
  const DataIdentity& identity() const { return identity_; }  // once identified

  // As many tokens as the bytes of identify.h hold, of 16 bits.
  static constexpr int64_t kMostIdentified = kMostIdentifiedBytes / 2, kSampled = kSampledBytes / 2;

 private:
  struct Files;
  explicit TokenSequence(std::shared_ptr<const Files> files);

  std::shared_ptr<const Files> files_;
  int64_t begin_ = 0, end_ = 0;
  DataIdentity identity_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_TOKEN_SEQUENCE_H_
