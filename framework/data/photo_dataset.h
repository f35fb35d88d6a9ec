// Photographs as a data set: read, decoded and cut to size when a step asks for them, by the thread
// that asks, wherever they lie.
#ifndef SLUICE_FRAMEWORK_DATA_PHOTO_DATASET_H_
#define SLUICE_FRAMEWORK_DATA_PHOTO_DATASET_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/data/dataset.h"
#include "framework/data/identify.h"
#include "framework/data/photo_view.h"

namespace sluice {

// Where pictures lie, by their numbers, each the bytes of a file that DecodeImage reads. Any
// thread.
class PhotoStore {
 public:
  virtual ~PhotoStore() = default;

  virtual const std::string& path() const = 0;  // of the whole
  virtual int64_t size() const = 0;
  virtual std::string Name(int64_t picture) const = 0;  // to be found by people, below the path
  // Returns what identifies the pictures in their order, labels included; valid as long as this.
  virtual DataParts Parts() const = 0;
  virtual absl::Status Read(int64_t picture, std::string* bytes) const = 0;
  virtual absl::StatusOr<int32_t> Label(int64_t picture) const = 0;
};

// What pictures are used for, which decides how many of them may be damaged. Of those to learn from
// one in a hundred may be, so that nobody trains on what is not meant. Of either use, at most half
// of those that Open looks at may be; after that a damaged held-out picture never ends a run.
enum class PhotoUse : uint8_t { kTraining, kHeldOut };

// Fields "images", u8 [height, width, 3], and "labels", i32 []. A picture that cannot be shown is
// seen as gray and named once in a warning, which also says how many are damaged so far; of very
// many only some are named. A held-out picture whose label is damaged too counts as one of class 0.
// Reading fails once more are known to be damaged than their use allows. A step allocates what the
// libraries take for a picture, and larger buffers for a larger picture than any before. Any
// thread.
class PhotoDataset : public Dataset {
 public:
  // `what` the pictures are is for people. Reads the headers and labels of a sample of the
  // pictures, so that files of something else are refused at once; then identifies them.
  static absl::StatusOr<std::unique_ptr<PhotoDataset>> Open(absl::string_view what,
                                                            std::unique_ptr<const PhotoStore> store,
                                                            const PhotoView& view,
                                                            PhotoUse use = PhotoUse::kTraining,
                                                            const IdentifyOptions& options = {});

  ~PhotoDataset() override;
  int64_t num_samples() const override { return store_->size(); }
  const std::vector<SampleField>& fields() const override { return fields_; }
  DataIdentity identity() const override { return identity_; }
  absl::Status Fill(int field, absl::Span<const int64_t> samples, int64_t position, const Box& box,
                    std::byte* to) const override;

  // Pictures that are known to be damaged.
  int64_t damaged() const;

 private:
  struct Workspace;  // what one call of Fill reads, decodes and cuts with

  PhotoDataset(absl::string_view what, std::unique_ptr<const PhotoStore> store,
               const PhotoView& view, PhotoUse use);
  absl::Status CheckSome() const;
  absl::StatusOr<int32_t> LabelOf(int64_t sample) const;
  absl::Status Show(int64_t sample, int64_t position, Workspace* work, uint8_t* to) const;
  absl::Status NoteDamage(int64_t sample, const absl::Status& why) const;
  absl::Status TooManyDamaged(absl::string_view expected, int64_t of, int64_t newest,
                              const absl::Status& why) const;
  std::unique_ptr<Workspace> TakeWorkspace() const;
  void GiveBack(std::unique_ptr<Workspace> work) const;

  const std::string what_;
  const std::unique_ptr<const PhotoStore> store_;
  const PhotoView view_;
  const PhotoUse use_;
  const std::vector<SampleField> fields_;
  DataIdentity identity_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Workspace>> idle_;  // guarded by mutex_
  mutable std::set<int64_t> damaged_;                     // guarded by mutex_
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_PHOTO_DATASET_H_
