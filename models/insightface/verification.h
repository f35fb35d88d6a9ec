// Verification as Labeled Faces in the Wild measures it: of pairs of pictures, whether both show
// one identity, by the cosine of their embeddings. Pure.
#ifndef SLUICE_MODELS_INSIGHTFACE_VERIFICATION_H_
#define SLUICE_MODELS_INSIGHTFACE_VERIFICATION_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace sluice {

constexpr int64_t kFolds = 10;

struct Pair {
  int64_t a = 0, b = 0;  // samples
  bool same = false;     // identity
};

// `count` pairs, genuine and impostor in turn, drawn by `seed`: the first n are a smaller test of
// the same kind. InvalidArgument: no identity has two samples, or there is but one.
absl::StatusOr<std::vector<Pair>> DrawPairs(absl::Span<const int32_t> labels, int64_t count,
                                            uint64_t seed);

// Returns all of the pairs, or where there are more than `most` about so many of them: genuine and
// impostor in turn, each kind spread evenly over the whole, because files list many pairs of one
// kind one after the other.
std::vector<Pair> SpreadPairs(absl::Span<const Pair> pairs, int64_t most);

struct RocPoint {
  double false_positives = 0, true_positives = 0;  // rates
};

struct Verification {
  // The mean over ten folds, each judged by the threshold that suits the other nine best.
  double accuracy = 0;
  // From (0, 0) to (1, 1), a point wherever a threshold lets another impostor pass.
  std::vector<RocPoint> roc;
};
// REQUIRES: a cosine a pair, and at least kFolds of either kind.
Verification Verify(absl::Span<const Pair> pairs, absl::Span<const float> cosines);
// The largest rate of true positives whose false ones are at most so many.
double TruePositivesAt(double false_positives, absl::Span<const RocPoint> roc);

// Of rows of `width` elements, one a sample, of whatever length.
std::vector<float> CosinesOf(absl::Span<const Pair> pairs, absl::Span<const float> rows,
                             int64_t width);

// Returns a picture of the curve with a logarithmic axis of false positives, as biometrics draws
// it. The two lines of `title` may hold any characters, and some 90 of them are seen.
std::string RocAsSvg(absl::Span<const RocPoint> roc, const std::array<std::string, 2>& title);

}  // namespace sluice

#endif  // SLUICE_MODELS_INSIGHTFACE_VERIFICATION_H_
