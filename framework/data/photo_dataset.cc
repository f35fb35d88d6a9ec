#include "framework/data/photo_dataset.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/base/status.h"

namespace sluice {
namespace {

constexpr int64_t kCheckedFirst = 256;  // pictures
constexpr int64_t kDamagedOf = 100;     // one in as many may be
constexpr int64_t kNamed = 3;           // of those that are, in an error
constexpr int64_t kWarned = 100;        // and in warnings
constexpr int kGray = 128;              // what is seen instead

}  // namespace

struct PhotoDataset::Workspace {
  std::string file;
  RgbImage image;
  PhotoViewer viewer;
  std::vector<uint8_t> seen;  // where less than the whole of it is asked for
};

PhotoDataset::PhotoDataset(absl::string_view what, std::unique_ptr<const PhotoStore> store,
                           const PhotoView& view, PhotoUse use)
    : what_(what),
      store_(std::move(store)),
      view_(view),
      use_(use),
      fields_({{"images", DType::kU8, {view.height, view.width, 3}}, {"labels", DType::kI32, {}}}) {
}

PhotoDataset::~PhotoDataset() = default;

absl::StatusOr<std::unique_ptr<PhotoDataset>> PhotoDataset::Open(
    absl::string_view what, std::unique_ptr<const PhotoStore> store, const PhotoView& view,
    PhotoUse use, const IdentifyOptions& options) {
  if (store->size() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": expected at least one picture in ", store->path(), ", got none"));
  }
  std::unique_ptr<PhotoDataset> dataset(new PhotoDataset(what, std::move(store), view, use));
  RETURN_IF_ERROR(dataset->CheckSome());
  DataParts parts = dataset->store_->Parts();
  parts.what = dataset->what_;
  ASSIGN_OR_RETURN(dataset->identity_, Identify(parts, options));
  return dataset;
}

// Of pictures that lie evenly among all.
absl::Status PhotoDataset::CheckSome() const {
  const int64_t checked = std::min(num_samples(), kCheckedFirst);
  std::string bytes;
  int64_t last = -1;
  absl::Status why;
  for (int64_t i = 0; i < checked; ++i) {
    const int64_t sample = i * num_samples() / checked;
    RETURN_IF_ERROR(LabelOf(sample).status());
    absl::Status status = store_->Read(sample, &bytes);
    if (status.ok()) status = ReadImageSize(bytes).status();
    if (status.ok()) continue;
    RETURN_IF_ERROR(NoteDamage(sample, status));
    last = sample;
    why = status;
  }
  if (2 * damaged() <= checked) return absl::OkStatus();
  return TooManyDamaged("at most half of the pictures to be damaged", checked, last, why);
}

// A label that is not known is an error of pictures to learn from: a wrong one would be learned.
absl::StatusOr<int32_t> PhotoDataset::LabelOf(int64_t sample) const {
  absl::StatusOr<int32_t> label = store_->Label(sample);
  // What the checksum, the parser or the disk says; a label that is no class is another matter.
  const bool damage = absl::IsDataLoss(label.status()) || absl::IsPermissionDenied(label.status());
  if (use_ != PhotoUse::kHeldOut || !damage) return label;
  RETURN_IF_ERROR(NoteDamage(sample, label.status()));
  return 0;
}

absl::Status PhotoDataset::NoteDamage(int64_t sample, const absl::Status& why) const {
  int64_t count = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!damaged_.insert(sample).second) return absl::OkStatus();
    count = static_cast<int64_t>(damaged_.size());
  }
  if (count <= kWarned) {
    SLUICE_LOG(WARNING) << what_ << ": " << store_->Name(sample)
                        << " is seen as gray: " << why.message() << "; " << count << " of "
                        << num_samples() << " are damaged so far"
                        << (count == kWarned ? "; others will not be named" : "");
  }
  if (use_ == PhotoUse::kHeldOut || count * kDamagedOf <= num_samples()) return absl::OkStatus();
  return TooManyDamaged(absl::StrCat("at most one damaged picture in ", kDamagedOf), num_samples(),
                        sample, why);
}

// `of`: how many pictures the damaged ones are among.
absl::Status PhotoDataset::TooManyDamaged(absl::string_view expected, int64_t of, int64_t newest,
                                          const absl::Status& why) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto damaged = static_cast<int64_t>(damaged_.size());
  std::string names;
  int64_t named = 0;
  for (const int64_t sample : damaged_) {
    if (named++ == kNamed) break;
    absl::StrAppend(&names, named == 1 ? "" : ", ", store_->Name(sample));
  }
  return absl::DataLossError(absl::StrCat(
      what_, ": expected ", expected, ", got ", damaged, " of ", of, " in ", store_->path(), ": ",
      names, damaged > kNamed ? ", .." : "", "; of ", store_->Name(newest), ": ", why.message()));
}

int64_t PhotoDataset::damaged() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int64_t>(damaged_.size());
}

std::unique_ptr<PhotoDataset::Workspace> PhotoDataset::TakeWorkspace() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (idle_.empty()) return std::make_unique<Workspace>();
  std::unique_ptr<Workspace> work = std::move(idle_.back());
  idle_.pop_back();
  return work;
}

void PhotoDataset::GiveBack(std::unique_ptr<Workspace> work) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  idle_.push_back(std::move(work));
}

absl::Status PhotoDataset::Show(int64_t sample, int64_t position, Workspace* work,
                                uint8_t* to) const {
  absl::Status status = store_->Read(sample, &work->file);
  if (status.ok()) status = DecodeImage(work->file, &work->image);
  if (status.ok()) {
    work->viewer.Show(view_, work->image, position, to);
    return absl::OkStatus();
  }
  std::memset(to, kGray, fields_[0].shape.NumElements());
  return NoteDamage(sample, status);
}

absl::Status PhotoDataset::Fill(int field, absl::Span<const int64_t> samples, int64_t position,
                                const Box& box, std::byte* to) const {
  if (field == 1) {
    auto* labels = reinterpret_cast<int32_t*>(to);
    for (const int64_t sample : samples) {
      ASSIGN_OR_RETURN(*labels++, LabelOf(sample));
    }
    return absl::OkStatus();
  }
  if (Volume(box) == 0) return absl::OkStatus();
  const Shape& shape = fields_[0].shape;
  const bool whole = Volume(box) == shape.NumElements();
  std::unique_ptr<Workspace> work = TakeWorkspace();
  if (!whole) work->seen.resize(shape.NumElements());
  absl::Status status;
  auto* pixels = reinterpret_cast<uint8_t*>(to);
  for (size_t i = 0; i < samples.size() && status.ok(); ++i) {
    uint8_t* const seen = whole ? pixels : work->seen.data();
    status = Show(samples[i], position + static_cast<int64_t>(i), work.get(), seen);
    if (whole) {
      pixels += shape.NumElements();
    } else {
      ForEachRow(WholeBox(shape), box, [&](int64_t offset, int64_t length) {
        pixels = std::copy_n(seen + offset, length, pixels);
      });
    }
  }
  GiveBack(std::move(work));
  return status;
}

}  // namespace sluice
