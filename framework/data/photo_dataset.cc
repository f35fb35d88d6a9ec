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
constexpr int64_t kNamed = 3;           // of those that are
constexpr int kGray = 128;              // what is seen instead

}  // namespace

struct PhotoDataset::Workspace {
  std::string file;
  RgbImage image;
  PhotoViewer viewer;
  std::vector<uint8_t> seen;  // where less than the whole of it is asked for
};

PhotoDataset::PhotoDataset(absl::string_view what, std::unique_ptr<const PhotoStore> store,
                           const PhotoView& view)
    : what_(what),
      store_(std::move(store)),
      view_(view),
      fields_({{"images", DType::kU8, {view.height, view.width, 3}}, {"labels", DType::kI32, {}}}) {
}

PhotoDataset::~PhotoDataset() = default;

absl::StatusOr<std::unique_ptr<PhotoDataset>> PhotoDataset::Open(
    absl::string_view what, std::unique_ptr<const PhotoStore> store, const PhotoView& view) {
  if (store->size() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": expected at least one picture in ", store->path(), ", got none"));
  }
  std::unique_ptr<PhotoDataset> dataset(new PhotoDataset(what, std::move(store), view));
  RETURN_IF_ERROR(dataset->CheckSome());
  return dataset;
}

// Of pictures that lie evenly among all.
absl::Status PhotoDataset::CheckSome() const {
  const int64_t checked = std::min(num_samples(), kCheckedFirst);
  std::string bytes;
  for (int64_t i = 0; i < checked; ++i) {
    const int64_t sample = i * num_samples() / checked;
    RETURN_IF_ERROR(store_->Label(sample).status());
    absl::Status status = store_->Read(sample, &bytes);
    if (status.ok()) status = ReadImageSize(bytes).status();
    if (!status.ok()) RETURN_IF_ERROR(NoteDamage(sample, status));
  }
  return absl::OkStatus();
}

absl::Status PhotoDataset::NoteDamage(int64_t sample, const absl::Status& why) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!damaged_.insert(sample).second) return absl::OkStatus();
  const std::string path = store_->Name(sample);
  SLUICE_LOG(WARNING) << what_ << ": " << path << " is seen as gray: " << why.message();
  const auto damaged = static_cast<int64_t>(damaged_.size());
  if (damaged * kDamagedOf <= num_samples()) return absl::OkStatus();
  std::string names;
  int64_t named = 0;
  for (const int64_t of : damaged_) {
    if (named++ == kNamed) break;
    absl::StrAppend(&names, named == 1 ? "" : ", ", store_->Name(of));
  }
  return absl::DataLossError(
      absl::StrCat(what_, ": expected at most one damaged picture in ", kDamagedOf, ", got ",
                   damaged, " of ", num_samples(), " in ", store_->path(), ": ", names,
                   damaged > kNamed ? ", .." : "", "; of ", path, ": ", why.message()));
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
      ASSIGN_OR_RETURN(*labels++, store_->Label(sample));
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
