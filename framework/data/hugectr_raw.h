// Raw, the plainest of HugeCTR's formats: samples of one size one behind the other, without a head,
// so that any of them is found by its number. Values take four bytes each, little-endian: labels,
// numbers, then a key of each categorical feature.
#ifndef SLUICE_FRAMEWORK_DATA_HUGECTR_RAW_H_
#define SLUICE_FRAMEWORK_DATA_HUGECTR_RAW_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/data/file.h"

namespace sluice {

// The file does not say it; of Criteo's logs unless something else is known.
struct RawColumns {
  int64_t labels = 1, numbers = 13, keys = 26;
  // Labels and numbers are f32, as with HugeCTR's float_label_dense; else they are u32.
  bool floats = true;

  int64_t SampleBytes() const { return 4 * (labels + numbers + keys); }
};

struct RawSample {
  std::vector<float> labels, numbers;
  std::vector<uint32_t> keys;
};

std::string RawBytes(const RawColumns& columns, const RawSample& sample);

class HugeCtrRaw {
 public:
  // A last sample that is cut short is left out and counted. InvalidArgument: columns of nothing.
  static absl::StatusOr<HugeCtrRaw> Open(const RawColumns& columns, RandomAccessFile file);

  int64_t num_samples() const { return file_.size() / columns_.SampleBytes(); }
  int64_t cut_bytes() const { return file_.size() % columns_.SampleBytes(); }
  const RawColumns& columns() const { return columns_; }
  // As many from `first` on. DataLoss: a label or number that is none, of which sample and where.
  absl::StatusOr<std::vector<RawSample>> Read(int64_t first, int64_t count) const;

 private:
  HugeCtrRaw(const RawColumns& columns, RandomAccessFile file)
      : columns_(columns), file_(std::move(file)) {}

  RawColumns columns_;
  RandomAccessFile file_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_HUGECTR_RAW_H_
