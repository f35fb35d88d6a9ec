// Rows of an embedding that a run takes over from the checkpoint of --init: each stands for a token
// of the vocabulary that it was learned with. One thread.
#ifndef SLUICE_FRAMEWORK_TRAIN_TOKEN_ROWS_H_
#define SLUICE_FRAMEWORK_TRAIN_TOKEN_ROWS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

// Returns whether a model of `vocabulary` tokens takes over the embedding of the checkpoint `init`:
// one of another size is learned anew.
absl::StatusOr<bool> TakesTokenRows(const std::string& init, int64_t vocabulary);

// A vocabulary and where it was read, for people.
struct TokensAt {
  uint64_t digest = 0;
  std::string where;
};

// InvalidArgument where the flag `flag` names other tokens than those that the checkpoint `init`
// was learned with, and a model of `vocabulary` tokens would take over its embedding. `kind` says
// what the tokens are: "byte pairs".
absl::Status CheckSameTokens(absl::string_view flag, absl::string_view kind, const TokensAt& named,
                             const std::string& init, const TokensAt& of_init, int64_t vocabulary);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_TOKEN_ROWS_H_
