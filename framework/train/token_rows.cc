#include "framework/train/token_rows.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/checkpoint/checkpoint.h"

namespace sluice {

absl::StatusOr<bool> TakesTokenRows(const std::string& init, int64_t vocabulary) {
  ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Load(init));
  return std::any_of(checkpoint.tensors().begin(), checkpoint.tensors().end(),
                     [vocabulary](const TensorEntry& tensor) {
                       return tensor.name == "embedding/table" && tensor.shape.rank() == 2 &&
                              tensor.shape[0] == vocabulary;
                     });
}

absl::Status CheckSameTokens(absl::string_view flag, absl::string_view kind, const TokensAt& named,
                             const std::string& init, const TokensAt& of_init, int64_t vocabulary) {
  if (named.digest == of_init.digest) return absl::OkStatus();
  ASSIGN_OR_RETURN(const bool taken, TakesTokenRows(init, vocabulary));
  if (!taken) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      flag, ": expected the ", kind, " of --init, which are in ", of_init.where, ", got others in ",
      named.where, ": rows of its embedding would stand for other tokens; without ", flag,
      " its own are taken, and with another --vocabulary the embedding is learned anew"));
}

}  // namespace sluice
