// What a face network learns from and is verified on: characters of fonts, faces in RecordIO files,
// or pictures that are drawn at random. One thread.
#ifndef SLUICE_MODELS_INSIGHTFACE_FACE_DATA_H_
#define SLUICE_MODELS_INSIGHTFACE_FACE_DATA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/base/stop.h"
#include "framework/data/image_dataset.h"
#include "framework/session/session.h"
#include "framework/train/app.h"
#include "framework/train/evaluation.h"
#include "models/insightface/verification.h"

namespace sluice {

struct FaceDataOptions {
  int64_t image_size = 112, channels = 3, classes = 10000;  // as the model takes them
  bool augment = true;                                      // what is learned from, each epoch anew
  bool synthetic = false;                                   // nothing is read but `verification`
  std::string verification;                                 // a .bin of pairs; empty: `data`'s own
  uint64_t seed = 1;  // of what is drawn; pairs are always the same
  Stop stop = {};     // ends the reading of records soon after it says so: Cancelled
};

// Pictures of identities that nobody learned, and the pairs of them that are told apart.
struct VerificationSet {
  std::string name;  // "all", "printed", "handwriting"; of a file its own, "lfw"
  LabeledImages images;
  std::vector<Pair> pairs;
};

struct FaceData {
  AppData app;
  // Of all held-out fonts, printed ones and handwriting, or the one of a file; none of records and
  // of synthetic data alone.
  std::vector<VerificationSet> sets;
};

// A folder with a train.rec has records, any other fonts. NotFound: `data` is not there, and how it
// is fetched. DataLoss: which file is damaged, and where.
absl::StatusOr<FaceData> OpenFaceData(const std::string& data, const FaceDataOptions& options);

// Embeds the pictures of about options.most_samples pairs, which SpreadPairs takes from all of the
// set, half of each kind; each picture once, by the session's program "embed". Then compares. No
// step may be under way. Of several ranks the first has the result. OutOfRange where an embedding
// is not finite; Cancelled where options.stop has ended it.
absl::StatusOr<Verification> VerifyBy(Session* session, const VerificationSet& set,
                                      const EvaluationOptions& options);
// What comparing pixel by pixel comes to: anything that learned should be better.
Verification VerifyByPixels(const VerificationSet& set);

}  // namespace sluice

#endif  // SLUICE_MODELS_INSIGHTFACE_FACE_DATA_H_
