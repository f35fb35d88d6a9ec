// The safetensors format: an 8-byte little-endian length, a JSON header
//   {"name": {"dtype": "F32", "shape": [2,3], "data_offsets": [begin, end]}, "__metadata__": {..}}
// and one buffer. The reader is strict, as files come from anywhere: header at most 100 MB, no
// name or field twice, products checked for overflow, the buffer indexed without hole or overlap,
// the file's length exact. Only Sluice's dtypes are read: F32 F64 BF16 I32.
#ifndef SLUICE_FRAMEWORK_CHECKPOINT_SAFETENSORS_H_
#define SLUICE_FRAMEWORK_CHECKPOINT_SAFETENSORS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/checkpoint/file.h"
#include "framework/tensor/array.h"

namespace sluice {

struct TensorEntry {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
};

// Gives the value of a tensor; called once for each, in order, so that one at a time is in memory.
using TensorSource = std::function<absl::StatusOr<HostTensor>(const TensorEntry&)>;

// Writes and syncs. Errors: a value that is not of its entry's type; a name twice; the source's.
absl::Status WriteSafetensors(const std::string& path, absl::Span<const TensorEntry> entries,
                              const std::map<std::string, std::string>& metadata,
                              const TensorSource& source, FileFaults* faults = nullptr);

class SafetensorsReader {
 public:
  static absl::StatusOr<SafetensorsReader> Open(const std::string& path);

  const std::vector<TensorEntry>& entries() const { return entries_; }  // in order of their bytes
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // NotFound if there is none of that name.
  absl::StatusOr<HostTensor> Read(absl::string_view name) const;

 private:
  explicit SafetensorsReader(FileReader file) : file_(std::move(file)) {}
  absl::Status ParseHeader(absl::string_view header, int64_t buffer_bytes);

  FileReader file_;
  int64_t buffer_ = 0;  // where it begins in the file
  std::vector<TensorEntry> entries_;
  std::vector<int64_t> begins_;
  std::map<std::string, int, std::less<>> index_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_CHECKPOINT_SAFETENSORS_H_
