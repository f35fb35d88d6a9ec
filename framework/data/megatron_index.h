// Megatron-LM's .idx, which says of which type the tokens of a .bin are, and how they make
// sequences and documents. Pure, but for reading.
#ifndef SLUICE_FRAMEWORK_DATA_MEGATRON_INDEX_H_
#define SLUICE_FRAMEWORK_DATA_MEGATRON_INDEX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/data/file.h"
#include "framework/data/token_layout.h"

namespace sluice {

struct MegatronParts {
  std::vector<int64_t> sequences;  // where each begins among the tokens, and where the last ends
  std::vector<int64_t> documents;  // at which sequence each begins, and with which the last ends
  std::vector<int8_t> modes;       // of each sequence, or empty
};

struct MegatronIndex {
  TokenType type = TokenType::kU16;
  int64_t tokens = 0, sequences = 0, documents = 0;
};

// Reads and checks all of an index, a piece at a time, and keeps what it says in `parts` unless
// that is null. DataLoss: which byte is damaged; `name` begins errors.
absl::StatusOr<MegatronIndex> ReadMegatronIndex(absl::string_view name, const RandomAccessFile& idx,
                                                MegatronParts* parts);

// Finds the tokens of a .bin by its index. DataLoss, too, where the .bin has more or fewer bytes.
absl::StatusOr<TokenLayout> FindMegatronTokens(absl::string_view bin_name,
                                               const RandomAccessFile& bin,
                                               absl::string_view idx_name,
                                               const RandomAccessFile& idx, MegatronParts* parts);

// Returns the bytes of an index. InvalidArgument where the parts do not fit each other.
absl::StatusOr<std::string> MegatronIndexBytes(const MegatronParts& parts, TokenType type);

// The path of the index of a .bin.
std::string MegatronIndexPath(const std::string& bin_path);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_MEGATRON_INDEX_H_
