// Faces in a RecordIO file as a data set, as InsightFace keeps its own: decoded when a step asks
// for them, by the thread that asks. Any thread.
#ifndef SLUICE_MODELS_INSIGHTFACE_RECORD_FACES_H_
#define SLUICE_MODELS_INSIGHTFACE_RECORD_FACES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/base/stop.h"
#include "framework/data/dataset.h"
#include "framework/data/identify.h"
#include "framework/data/record_io.h"

namespace sluice {

struct RecordFacesOptions {
  int64_t image_size = 112, classes = 0;  // as the model takes them
  bool flip = true;                       // every other time left is right
  uint64_t seed = 1;
  Stop stop = {};  // ends the reading of all bytes soon after it says so: Cancelled
};

class RecordFaces : public Dataset {
 public:
  // Fields "images", u8 [size, size, 3], and "labels", i32 []. Where record 0 has two labels, its
  // first is the key behind the last picture, as identities follow; else every record is one.
  // Errors name the file and the record: of another size than the model takes, of a label that is
  // no class.
  static absl::StatusOr<std::unique_ptr<RecordFaces>> Open(const std::string& path,
                                                           const RecordFacesOptions& options);

  int64_t num_samples() const override { return static_cast<int64_t>(pictures_.size()); }
  const std::vector<SampleField>& fields() const override { return fields_; }
  DataIdentity identity() const override { return identity_; }
  absl::Status Fill(int field, absl::Span<const int64_t> samples, int64_t position, const Box& box,
                    std::byte* to) const override;

 private:
  RecordFaces(const std::string& path, const RecordFacesOptions& options, RecordFile file);
  absl::Status FindPictures();
  absl::Status CheckSome() const;
  DataParts Parts() const;
  absl::Status Show(int64_t sample, int64_t position, const Box& box, uint8_t* to) const;
  absl::StatusOr<int32_t> LabelOf(int64_t sample) const;

  const std::string path_;
  const RecordFacesOptions options_;
  const RecordFile file_;
  const std::vector<SampleField> fields_;
  std::vector<int64_t> pictures_;  // their keys
  DataIdentity identity_;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_INSIGHTFACE_RECORD_FACES_H_
