// Pairs of pictures and whether both show one identity, as InsightFace keeps its verification sets
// (lfw.bin, cfp_fp.bin, agedb_30.bin): a Python pickle of a list of JPEG files' bytes, two a pair,
// and a list of booleans. Any thread.
#ifndef SLUICE_FRAMEWORK_DATA_PICTURE_PAIRS_H_
#define SLUICE_FRAMEWORK_DATA_PICTURE_PAIRS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

struct PicturePairs {
  std::vector<absl::string_view> pictures;  // 2 i and 2 i + 1 are pair i; into the bytes parsed
  std::vector<bool> same;                   // of each pair
};

// A pickle is a program. Of its instructions those are followed that put together lists, pairs,
// bytes and booleans, as pickles of protocol 2 (Python 2) and later do; any other, such as one that
// names a Python object or calls it, is refused. DataLoss: what was expected, and where.
absl::StatusOr<PicturePairs> ParsePicturePairs(absl::string_view bytes);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_PICTURE_PAIRS_H_
