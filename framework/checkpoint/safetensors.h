// The safetensors format: an 8-byte little-endian length, a JSON header
//   {"name": {"dtype": "F32", "shape": [2,3], "data_offsets": [begin, end]}, "__metadata__": {..}}
// and one buffer. The reader is strict, as files come from anywhere: header at most 100 MB, no
// name or field twice, products checked for overflow, the buffer indexed without hole or overlap,
// the file's length exact. Tensors of Sluice's dtypes, F32 F64 BF16 I32, are read as they are;
// others of the format (F16, BOOL, U8 ..) are listed.
#ifndef SLUICE_FRAMEWORK_CHECKPOINT_SAFETENSORS_H_
#define SLUICE_FRAMEWORK_CHECKPOINT_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/checkpoint/file.h"
#include "framework/tensor/array.h"
#include "framework/tensor/shape.h"

namespace sluice {

struct TensorEntry {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
};

// What a file says of a tensor: any dtype of the format but those of less than a byte.
struct StoredTensor {
  std::string name;
  std::string dtype;  // the format's word
  Shape shape;
};

// A tensor, or a view of the bytes of one that are there until all is written.
class TensorValue {
 public:
  TensorValue(HostTensor tensor) : tensor_(std::move(tensor)) {}  // NOLINT: sources return tensors
  TensorValue(DType dtype, Shape shape, absl::Span<const std::byte> bytes) : view_(bytes) {
    tensor_.dtype = dtype;
    tensor_.shape = std::move(shape);
  }
  DType dtype() const { return tensor_.dtype; }
  const Shape& shape() const { return tensor_.shape; }
  absl::Span<const std::byte> bytes() const {
    return view_.data() == nullptr ? absl::MakeConstSpan(tensor_.bytes) : view_;
  }

 private:
  HostTensor tensor_;
  absl::Span<const std::byte> view_;
};

// Gives the value of a tensor; called once for each, in order, so that one at a time need be in
// memory.
using TensorSource = std::function<absl::StatusOr<TensorValue>(const TensorEntry&)>;

// Sees the bytes of tensors, in order, right before they are written, while they are in the cache.
// A piece begins at element `first` of its tensor and holds whole elements; a tensor without
// elements has one empty piece. An error ends the writing.
using PieceObserver = std::function<absl::Status(const TensorEntry& entry, int64_t first,
                                                 absl::Span<const std::byte> piece)>;

// Writes and syncs. Errors: a value that is not of its entry's type; a name twice; those of the
// source and of `observer`, which may be empty.
absl::Status WriteSafetensors(const std::string& path, absl::Span<const TensorEntry> entries,
                              const std::map<std::string, std::string>& metadata,
                              const TensorSource& source, FileFaults* faults = nullptr,
                              const PieceObserver& observer = {});

class SafetensorsReader {
 public:
  static absl::StatusOr<SafetensorsReader> Open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  // In order of their bytes: all, and those of Sluice's dtypes.
  const std::vector<StoredTensor>& stored() const { return stored_; }
  const std::vector<TensorEntry>& entries() const { return entries_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // NotFound if there is none of that name; InvalidArgument if its dtype is none of Sluice's.
  absl::StatusOr<HostTensor> Read(absl::string_view name) const;
  // Bytes of a tensor from its byte `from` on, whatever its dtype; InvalidArgument past its end.
  absl::Status ReadBytes(absl::string_view name, int64_t from, absl::Span<std::byte> bytes) const;
  // The values of a tensor of F32, F16 or BF16 as f32, which loses nothing (though a signalling NaN
  // may become a quiet one); InvalidArgument for others.
  absl::StatusOr<HostTensor> ReadAsF32(absl::string_view name) const;

 private:
  explicit SafetensorsReader(FileReader file) : file_(std::move(file)) {}
  absl::Status ParseHeader(absl::string_view header, int64_t buffer_bytes);
  absl::StatusOr<int> Find(absl::string_view name) const;

  FileReader file_;
  int64_t buffer_ = 0;  // where it begins in the file
  std::vector<StoredTensor> stored_;
  std::vector<TensorEntry> entries_;
  std::vector<Range> places_;                      // of stored_, in the buffer
  std::map<std::string, int, std::less<>> index_;  // of stored_
  std::map<std::string, std::string> metadata_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_CHECKPOINT_SAFETENSORS_H_
